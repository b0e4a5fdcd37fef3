"""Sound and video: samples or frames along time, in seconds.

A recording is band-limited: nothing in it is faster than half its rate. So the settings that suit
it, which a fit without any takes, are of a high order, with wide margins around every region. The
frames of a video are pictures; its sound is carried along. Through soundfile and PyAV.
"""

import io
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.field.coordinates.labels import AxisLabels, ChannelLabels, Labels
from elmfield.io.files import need, reading, suffix_of
from elmfield.io.formats.arrays import Lazy
from elmfield.io.formats.raster import as_bytes, as_text
from elmfield.io.gridded import Gridded, step_of
from elmfield.show.pictures import colourise

SOUND_DTYPES = {
    **dict.fromkeys(("PCM_U8", "PCM_S8", "PCM_16"), "int16"),
    **dict.fromkeys(("PCM_24", "PCM_32"), "int32"),
}
"""Subtypes that hold whole numbers, and what they are read as."""

SUITS = {"order": 16.0, "context": 32, "mirrored": True}
"""Settings for what is band-limited; benchmarks/sound.py has what they buy."""

CODECS = {
    ".mp4": ("libx264", "yuv420p", {"crf": "16"}),
    ".mov": ("libx264", "yuv420p", {"crf": "16"}),
    ".webm": ("libvpx-vp9", "yuv420p", {"crf": "20", "b:v": "0"}),
    ".mkv": ("ffv1", "bgr0", {}),
    ".avi": ("ffv1", "bgr0", {}),
}
"""Encoder, pixel format and options; Matroska and AVI without loss."""

SECONDS = {"time": AxisLabels(attrs={"units": "s"})}


def read(path: Path, variable: str | None = None, *, lazily: bool = False) -> Gridded:
    """A recording, one channel per voice; or all frames of a video, (T, H, W, 3) uint8."""
    return _read_video(path, lazily) if suffix_of(path) in CODECS else _read_sound(path)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a recording or a video; the rate was asked for, or follows from the time axis."""
    if suffix_of(path) in CODECS:
        _write_video(samples, path, colours)
    else:
        _write_sound(samples, path)


# --- rates ----------------------------------------------------------------------------------------


def times(n: int, rate: Fraction) -> Floats:
    """Seconds of samples or frames: quotients of whole numbers, right to the last digit."""
    return np.asarray(np.arange(n) * float(rate.denominator) / float(rate.numerator), np.float64)


def noted_rate(rate: Fraction) -> int | str:
    """A rate as labels hold it: whole, or a quotient as text."""
    return int(rate) if rate.denominator == 1 else f"{rate.numerator}/{rate.denominator}"


def rate_of(samples: Gridded, usual: Fraction) -> Fraction:
    """Samples or frames per second: as noted, or along the time axis."""
    noted = samples.labels.rate
    if len(time := samples.line(samples.dims[0])) > 1:
        return _settled(noted, Fraction(1 / abs(step_of(time))))
    return usual if noted is None else Fraction(str(noted))


def _settled(noted: int | str | None, along: Fraction) -> Fraction:
    """The rate that is noted, which is exact, unless that along an axis is not the same."""
    if noted is not None and abs(Fraction(str(noted)) - along) < along / 10**6:
        return Fraction(str(noted))
    return along.limit_denominator(1001)


# --- sound ----------------------------------------------------------------------------------------


def _read_sound(path: Path) -> Gridded:
    soundfile = need("soundfile", "io", "reading sound files")
    with reading(path, "sound"), soundfile.SoundFile(path) as file:
        rate, subtype = file.samplerate, file.subtype
        values = file.read(dtype=SOUND_DTYPES.get(subtype, "float64"), always_2d=True)
    channels, at = ChannelLabels(name="voice"), {"time": times(len(values), Fraction(rate))}
    about: dict[str, Any] = {"rate": rate, "suits": SUITS, "header": {"subtype": subtype}}
    labels = Labels(align="nodes", axes=SECONDS, channels=channels, **about)
    k = 1 if values.shape[1] > 1 else None
    values = values if k else values[:, 0]
    return Gridded(values=values, dims=("time",), coords=at, channel_axis=k, labels=labels)


def _write_sound(samples: Gridded, path: Path) -> None:
    soundfile = need("soundfile", "io", "writing sound files")
    if len(samples.dims) != 1:
        raise ValueError(f"{path.name}: sound has one axis; got {', '.join(samples.dims)}.")
    values = samples.channels_last
    subtype = samples.labels.header.get("subtype", "PCM_32" if values.dtype == np.int32 else None)
    if values.dtype.kind == "f":  # floats beyond 1 would be clipped by a whole-number subtype
        subtype = "FLOAT" if values.dtype == np.float32 else "DOUBLE"
    kind = suffix_of(path)[1:].upper()
    if not soundfile.check_format(kind, subtype):
        is_wide = subtype == "PCM_32" and soundfile.check_format(kind, "PCM_24")
        subtype = "PCM_24" if is_wide else soundfile.default_subtype(kind)
    rate = rate_of(samples, Fraction(44100))
    if rate < 1 or abs(rate - round(rate)) > 1e-6 * rate:
        raise ValueError(
            f"{path.name}: the header of a sound file holds a whole number of samples per second; "
            f"got {float(rate):.9g}. Say which: rate={max(1, round(rate))}, or --rate."
        )
    soundfile.write(path, values, round(rate), subtype=subtype, format=kind)


# --- video ----------------------------------------------------------------------------------------


def _read_video(path: Path, lazily: bool) -> Gridded:
    """All frames; lazily, they are decoded as they are needed, in order."""
    av = need("av", "video", "reading video files")
    with reading(path, "video"), av.open(str(path)) as file:
        stream = _video_stream(file)
        rate = Fraction(stream.average_rate or 25)
        values: Array
        if lazily:
            # What a file says of its length is not always so: packets are counted.
            n = sum(1 for packet in file.demux(stream) if packet.size)
            shape = (n, stream.height, stream.width, 3)
            values = Lazy(Frames(path), shape, np.dtype(np.uint8), stored=(1, *shape[1:]))
        else:
            frames = [f.to_ndarray(format="rgb24") for f in file.decode(stream)]
            n, values = len(frames), np.stack(frames) if frames else None
        if not n:
            raise ValueError("it has no frames")
        header = {"sound": as_text(_extract_sound(av, path))} if file.streams.audio else {}
    channels = ChannelLabels(name="colour", labels=["red", "green", "blue"])
    noted = noted_rate(rate)
    labels = Labels(align="areas", axes=SECONDS, channels=channels, rate=noted, header=header)
    dims, at = ("time", "row", "column"), {"time": times(n, rate)}
    return Gridded(values=values, dims=dims, coords=at, channel_axis=3, labels=labels)


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
            yield from file.decode(_video_stream(file))


def _video_stream(file: Any) -> Any:
    """The stream of pictures."""
    if not file.streams.video:
        raise ValueError("it has no pictures")
    return file.streams.video[0]


def _extract_sound(av: ModuleType, path: Path) -> bytes:
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


def _write_video(samples: Gridded, path: Path, colours: str | None) -> None:
    av = need("av", "video", "writing video files")
    values = _to_frames(samples, path, colours)
    rate = rate_of(samples, Fraction(25))
    codec, pixels, options = CODECS[suffix_of(path)]
    if pixels == "yuv420p":  # colours are stored for pairs of rows and columns
        h, w = (n - n % 2 for n in values.shape[1:3])
        values = values[:, : max(h, 2), : max(w, 2)]
    sound = samples.labels.header.get("sound")
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width = values.shape[1:3]
        stream.pix_fmt = pixels
        heard = None if sound is None else _add_sound(av, file, as_bytes(sound))
        for frame in values:
            shown = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            file.mux(stream.encode(shown))
        file.mux(stream.encode())
        if heard is not None:
            start = float(np.min(samples.coords.get(samples.dims[0], 0.0)))
            heard(start, start + float(len(values) / rate))


def _to_frames(samples: Gridded, path: Path, colours: str | None) -> Array:
    """Frames, (T, H, W, 3) uint8, in the order of time."""
    values = samples.channels_last
    if len(samples.dims) != 3 or (values.ndim == 4 and values.shape[-1] not in (1, 3)):
        raise ValueError(
            f"{path.name}: a video has the axes time, row and column and one or three channels; "
            f"got {', '.join(samples.dims)}."
        )
    if values.ndim == 3 or values.shape[-1] == 1:
        values = values.reshape(values.shape[:3])
        if values.dtype == np.uint8:
            values = np.repeat(values[..., None], 3, axis=-1)
        else:
            ends = float(np.nanmin(values)), float(np.nanmax(values))
            values = np.stack([colourise(v, colours or "grey", *ends) for v in values])
    if values.dtype != np.uint8:
        values = np.clip(np.nan_to_num(np.round(values)), 0, 255).astype(np.uint8)
    return values


def _add_sound(av: ModuleType, file: Any, data: bytes) -> Callable[[float, float], None]:
    """Add a sound track to a file: as it is, or coded again where the file wants that.

    Returns what puts in the sound from one time to another, in seconds.
    """
    kept = av.open(io.BytesIO(data))
    source = kept.streams.audio[0]
    own = {source.codec_context.codec.name, source.codec_context.name}
    if is_able := bool(own & file.supported_codecs):
        stream = file.add_stream_from_template(source)
    else:
        usual = {"webm": "libopus", "avi": "pcm_s16le"}.get(file.format.name, "aac")
        stream = file.add_stream(usual, rate=source.rate)

    def copy(start: float, end: float) -> None:
        with kept:
            for some in kept.demux(source) if is_able else kept.decode(source):
                if some.pts is None or not start - 1e-6 <= float(some.pts * some.time_base) < end:
                    continue
                if is_able and some.dts is not None:
                    shift = round(start / some.time_base)
                    some.pts, some.dts, some.stream = some.pts - shift, some.dts - shift, stream
                    file.mux(some)
                elif not is_able:
                    some.pts = None
                    file.mux(stream.encode(some))
            if not is_able:
                file.mux(stream.encode())

    return copy


# --- another rate ---------------------------------------------------------------------------------


Rate = float | str | Fraction
"""Samples per second; text for a quotient, such as "30000/1001"."""

TIME_UNITS = ("s", "sec", "second", "seconds")
"""Units that say that an axis is time."""

STOP_BAND_DB = 140.0
"""What a low-pass filter leaves of what is too fast for a lower rate, in dB below it."""

TRANSITION = 0.08
"""The part of the band below half the new rate in which the filter falls."""


def rate_in(rate: Rate) -> Fraction:
    """A rate as callers write it: a number, a Fraction, or text such as "30000/1001"."""
    try:
        found = Fraction(str(rate)) if isinstance(rate, (float, str)) else Fraction(rate)
    except (ValueError, TypeError, ZeroDivisionError):
        found = Fraction(0)
    if found <= 0:
        raise ValueError(f"`rate` must be samples per second, above 0; got {rate!r}.")
    return found


def time_axis(field: Field) -> int:
    """The axis that counts seconds."""
    for k, name in enumerate(field.domain.dims):
        if name in ("time", "t") or field.labels.axis(name).attrs.get("units") in TIME_UNITS:
            return k
    got = ", ".join(field.domain.dims)
    raise ValueError(f"`rate` is for an axis of time; got axes {got}. Use `shape` or `scale`.")


def own_rate(field: Field, k: int) -> Fraction:
    """Samples per second of the field's own samples."""
    axis = field.domain.axes[k]
    along = Fraction(1) if axis.coords is None else Fraction(1 / abs(float(axis.step)))
    return _settled(field.labels.rate, along)


def decimate(values: Array, m: int, axis: int) -> Array:
    """Every m-th of values along an axis, after what is too fast for them was filtered out."""
    from scipy.signal import firwin, kaiserord, resample_poly

    taps, beta = kaiserord(STOP_BAND_DB, TRANSITION / m)
    half = math.ceil(taps / 2 / m) * m
    h: Floats = firwin(2 * half + 1, (1 - TRANSITION / 2) / m, window=("kaiser", beta))
    # Beyond its ends a recording is mirrored; silence would ring.
    beyond = "reflect" if values.shape[axis] > half else "edge"
    return np.asarray(resample_poly(values, 1, m, axis=axis, window=h, padtype=beyond))
