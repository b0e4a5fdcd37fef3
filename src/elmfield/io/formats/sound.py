"""Sound: samples along time, one channel per voice.

A recording is band-limited: nothing in it is faster than half its rate. So the settings that suit
it, which a fit without any takes, are of a high order, with wide margins around every region.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np

from elmfield._array.typing import Floats
from elmfield.io.errors import reading
from elmfield.io.formats.registry import need
from elmfield.io.gridded import Gridded

WHOLE = {
    "PCM_U8": "int16",
    "PCM_S8": "int16",
    "PCM_16": "int16",
    "PCM_24": "int32",
    "PCM_32": "int32",
}
"""Subtypes that hold whole numbers, and what they are read as."""

SUITS = {"order": 16.0, "context": 32, "mirrored": True}
"""Settings for what is band-limited; benchmarks/sound.py has what they buy."""


def read(path: Path, variable: str | None = None) -> Gridded:
    """A recording: axis "time" in seconds."""
    soundfile = need("soundfile", "io", "reading sound files")
    with reading(path, "sound"), soundfile.SoundFile(path) as file:
        rate, subtype = file.samplerate, file.subtype
        values = file.read(dtype=WHOLE.get(subtype, "float64"), always_2d=True)
    time = times(len(values), Fraction(rate))
    single = values.shape[1] == 1
    return Gridded(
        values=values[:, 0] if single else values,
        dims=("time",),
        coords={"time": time},
        channel_axis=None if single else 1,
        attributes={
            "align": "nodes",
            "axes": {"time": {"attrs": {"units": "s"}}},
            "channels": {"name": "voice"},
            "rate": rate,
            "suits": SUITS,
            "header": {"subtype": subtype},
        },
    )


def opened(path: Path, variable: str | None = None) -> Gridded:
    """The same: such files are read at once."""
    return read(path, variable)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a recording; its rate is the one that was asked for, or follows from the time axis."""
    soundfile = need("soundfile", "io", "writing sound files")
    if len(samples.dims) != 1:
        raise ValueError(f"{path.name}: sound has one axis; got {', '.join(samples.dims)}.")
    values = np.asarray(samples.values)
    if samples.channel_axis == 0:
        values = values.T
    subtype = samples.attributes.get("header", {}).get("subtype")
    if values.dtype.kind == "f":  # floats beyond 1 would be clipped by a whole-number subtype
        subtype = "FLOAT" if values.dtype == np.float32 else "DOUBLE"
    suffix = path.suffix.lower()
    kind = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}[suffix]
    if not soundfile.check_format(kind, subtype):
        subtype = soundfile.default_subtype(kind)
    soundfile.write(path, values, _rate(samples, path), subtype=subtype, format=kind)


def _rate(samples: Gridded, path: Path) -> int:
    """Samples per second, as the header of a file can hold them: a whole number."""
    rate = rate_of(samples, Fraction(44100))
    if rate < 1 or abs(rate - round(rate)) > 1e-6 * rate:
        raise ValueError(
            f"{path.name}: the header of a sound file holds a whole number of samples per second; "
            f"got {float(rate):.9g}. Say which: rate={max(1, round(rate))}, or --rate."
        )
    return round(rate)


def times(n: int, rate: Fraction) -> Floats:
    """Seconds of samples or frames: quotients of whole numbers, right to the last digit."""
    return np.asarray(np.arange(n) * float(rate.denominator) / float(rate.numerator), np.float64)


def rate_of(samples: Gridded, usual: Fraction) -> Fraction:
    """Samples or frames per second: as noted, or along the time axis."""
    noted = samples.attributes.get("rate")
    time = samples.coords.get(samples.dims[0])
    along = usual
    if time is not None and len(time) > 1:
        seconds = abs(float(time[-1]) - float(time[0]))
        along = Fraction((len(time) - 1) / seconds).limit_denominator(1001)
    elif noted is not None:
        along = Fraction(str(noted))
    # What is noted is exact, but not what a slice or another grid made of it.
    same = noted is not None and abs(Fraction(str(noted)) - along) < along / 10**6
    return Fraction(str(noted)) if same else along
