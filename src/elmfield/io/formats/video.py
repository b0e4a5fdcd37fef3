"""Video: frames along time, rows, columns, colours. Through PyAV."""

from fractions import Fraction
from pathlib import Path

import numpy as np

from elmfield.io.errors import reading
from elmfield.io.formats.registry import need
from elmfield.io.gridded import Gridded

CODECS = {
    ".mp4": ("libx264", "yuv420p", {"crf": "16"}),
    ".mov": ("libx264", "yuv420p", {"crf": "16"}),
    ".webm": ("libvpx-vp9", "yuv420p", {"crf": "20", "b:v": "0"}),
    ".mkv": ("ffv1", "bgr0", {}),
    ".avi": ("ffv1", "bgr0", {}),
}
"""Encoder, pixel format and options; Matroska and AVI without loss."""


def read(path: Path, variable: str | None = None) -> Gridded:
    """All frames of a video, (T, H, W, 3) uint8: axes "time" in seconds, "row", "column"."""
    av = need("av", "video", "reading video files")
    with reading(path, "video"), av.open(str(path)) as file:
        if not file.streams.video:
            raise ValueError("it has no pictures")
        stream = file.streams.video[0]
        rate = float(stream.average_rate or 25)
        frames = [f.to_ndarray(format="rgb24") for f in file.decode(stream)]
        if not frames:
            raise ValueError("it has no frames")
    return Gridded(
        values=np.stack(frames),
        dims=("time", "row", "column"),
        coords={"time": np.arange(len(frames)) / rate},
        channel_axis=3,
        attributes={
            "align": "areas",
            "axes": {"time": {"attrs": {"units": "s"}}},
            "channels": {"name": "colour", "labels": ["red", "green", "blue"]},
        },
    )


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a video; its rate follows from the time axis."""
    av = need("av", "video", "writing video files")
    from elmfield.show.render import picture

    values = np.asarray(samples.values)
    if samples.channel_axis is not None:
        values = np.moveaxis(values, samples.channel_axis, -1)
    if len(samples.dims) != 3 or (values.ndim == 4 and values.shape[-1] not in (1, 3)):
        raise ValueError(
            f"{path.name}: a video has the axes time, row and column and one or three channels; "
            f"got {', '.join(samples.dims)}."
        )
    if values.ndim == 3 or values.shape[-1] == 1:
        values = values.reshape(values.shape[:3])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if values.dtype == np.uint8:
            values = np.repeat(values[..., None], 3, axis=-1)
        else:
            values = np.stack([picture(v, colours or "viridis", low, high) for v in values])
    if values.dtype != np.uint8:
        values = np.clip(np.nan_to_num(np.round(values)), 0, 255).astype(np.uint8)
    time = samples.coords.get(samples.dims[0])
    rate = Fraction(25)
    if time is not None and len(time) > 1:
        seconds = float(abs(time[-1] - time[0]))
        rate = Fraction((len(time) - 1) / seconds).limit_denominator(1001)
    codec, pixels, options = CODECS[path.suffix.lower()]
    if pixels == "yuv420p":  # colours are stored for pairs of rows and columns
        h, w = (n - n % 2 for n in values.shape[1:3])
        values = values[:, : max(h, 2), : max(w, 2)]
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width = values.shape[1:3]
        stream.pix_fmt = pixels
        for frame in values:
            shown = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            for packet in stream.encode(shown):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)
