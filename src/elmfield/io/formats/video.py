"""Video: frames along time, rows, columns, colours; its sound is carried along. Through PyAV."""

import io
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.io.errors import reading
from elmfield.io.formats.profiles import as_bytes, as_text
from elmfield.io.formats.registry import need
from elmfield.io.formats.sound import rate_of, times
from elmfield.io.gridded import Gridded
from elmfield.io.lazy import Lazy

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
        stream = _pictures(file)
        rate = Fraction(stream.average_rate or 25)
        frames = [f.to_ndarray(format="rgb24") for f in file.decode(stream)]
        if not frames:
            raise ValueError("it has no frames")
        sound = bool(file.streams.audio)
    return _of_frames(np.stack(frames), rate, path if sound else None)


def opened(path: Path, variable: str | None = None) -> Gridded:
    """The same; frames are decoded as they are needed, in order."""
    av = need("av", "video", "reading video files")
    with reading(path, "video"), av.open(str(path)) as file:
        stream = _pictures(file)
        rate = Fraction(stream.average_rate or 25)
        # What a file says of its length is not always so: packets are counted, not decoded.
        n = sum(1 for packet in file.demux(stream) if packet.size)
        if not n:
            raise ValueError("it has no frames")
        whole = (n, stream.height, stream.width, 3)
        sound = bool(file.streams.audio)
    values = Lazy(Frames(path), whole, np.dtype(np.uint8), stored=(1, *whole[1:]))
    return _of_frames(values, rate, path if sound else None)


class Frames:
    """Decodes slabs of a video; goes on where it was if the next frames are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next = 0
        self._coming: Iterator[Any] = iter(())

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        return Frames, (self.path,)

    def __call__(self, slab: tuple[slice, ...]) -> Array:
        """The frames of a slab, cut."""
        wanted = range(slab[0].start, slab[0].stop, slab[0].step or 1)
        if wanted.start < self._next or self._next == 0:
            self._next, self._coming = 0, self._decoded()
        found: list[Array] = []
        for frame in self._coming:
            at, self._next = self._next, self._next + 1
            if at in wanted:
                found.append(frame.to_ndarray(format="rgb24")[slab[1:]])
            if self._next >= wanted.stop:
                break
        if len(found) < len(wanted):
            raise ValueError(f"{self.path.name}: the video ends before frame {wanted.stop}.")
        return np.stack(found)

    def _decoded(self) -> Iterator[Any]:
        av = need("av", "video", "reading video files")
        with av.open(str(self.path)) as file:
            yield from file.decode(_pictures(file))


def _pictures(file: Any) -> Any:
    """The stream of pictures."""
    if not file.streams.video:
        raise ValueError("it has no pictures")
    return file.streams.video[0]


def _of_frames(values: Any, rate: Fraction, sound: Path | None) -> Gridded:
    """Frames (T, H, W, 3), so many a second, with the sound of a file."""
    attributes: dict[str, Any] = {
        "align": "areas",
        "axes": {"time": {"attrs": {"units": "s"}}},
        "channels": {"name": "colour", "labels": ["red", "green", "blue"]},
        "rate": int(rate) if rate.denominator == 1 else f"{rate.numerator}/{rate.denominator}",
    }
    if sound is not None:
        with reading(sound, "video"):
            av = need("av", "video", "reading video files")
            attributes["header"] = {"sound": as_text(_sound(av, sound))}
    return Gridded(
        values=values,
        dims=("time", "row", "column"),
        coords={"time": times(values.shape[0], rate)},
        channel_axis=3,
        attributes=attributes,
    )


def _sound(av: Any, path: Path) -> bytes:
    """The first sound track as it is, in a Matroska file of its own."""
    kept = io.BytesIO()
    with av.open(str(path)) as file, av.open(kept, "w", format="matroska") as out:
        track = file.streams.audio[0]
        copy = out.add_stream_from_template(track)
        for packet in file.demux(track):
            if packet.dts is not None:
                packet.stream = copy
                out.mux(packet)
    return kept.getvalue()


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a video with its sound; the rate was asked for, or follows from the time axis."""
    av = need("av", "video", "writing video files")
    values = _frames(samples, path, colours)
    rate = rate_of(samples, Fraction(25))
    codec, pixels, options = CODECS[path.suffix.lower()]
    if pixels == "yuv420p":  # colours are stored for pairs of rows and columns
        h, w = (n - n % 2 for n in values.shape[1:3])
        values = values[:, : max(h, 2), : max(w, 2)]
    sound = samples.attributes.get("header", {}).get("sound")
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width = values.shape[1:3]
        stream.pix_fmt = pixels
        heard = None if sound is None else _Track(av, file, as_bytes(sound))
        for frame in values:
            shown = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            for packet in stream.encode(shown):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)
        if heard is not None:
            time = samples.coords.get(samples.dims[0])
            start = 0.0 if time is None else float(min(time[0], time[-1]))
            heard.copy(start, start + float(len(values) / rate))


def _frames(samples: Gridded, path: Path, colours: str | None) -> Array:
    """Frames, (T, H, W, 3) uint8, in the order of time."""
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
    return values


class _Track:
    """A sound track on its way into a file: as it is, or coded again where the file wants that."""

    def __init__(self, av: Any, file: Any, data: bytes) -> None:
        self.av, self.file = av, file
        self.kept = av.open(io.BytesIO(data))
        self.source = self.kept.streams.audio[0]
        name = self.source.codec_context.name
        able = file.supported_codecs
        if self.source.codec_context.codec.name in able or name in able:
            self.stream, self.encodes = file.add_stream_from_template(self.source), False
        else:
            usual = {"webm": "libopus", "avi": "pcm_s16le"}.get(file.format.name, "aac")
            self.stream, self.encodes = file.add_stream(usual, rate=self.source.rate), True

    def copy(self, start: float, end: float) -> None:
        """Put in what is heard from `start` to `end`, in seconds."""
        with self.kept:
            if self.encodes:
                self._encode(start, end)
                return
            for packet in self.kept.demux(self.source):
                if packet.dts is None or packet.pts is None:
                    continue
                at = float(packet.pts * packet.time_base)
                if not start - 1e-6 <= at < end:
                    continue
                shift = round(start / packet.time_base)
                packet.pts, packet.dts = packet.pts - shift, packet.dts - shift
                packet.stream = self.stream
                self.file.mux(packet)

    def _encode(self, start: float, end: float) -> None:
        for frame in self.kept.decode(self.source):
            if frame.time is not None and start - 1e-6 <= frame.time < end:
                frame.pts = None
                for packet in self.stream.encode(frame):
                    self.file.mux(packet)
        for packet in self.stream.encode():
            self.file.mux(packet)
