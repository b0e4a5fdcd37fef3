"""Sound: samples along time, one channel per voice."""

from pathlib import Path

import numpy as np

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


def read(path: Path, variable: str | None = None) -> Gridded:
    """A recording: axis "time" in seconds."""
    soundfile = need("soundfile", "io", "reading sound files")
    with reading(path, "sound"), soundfile.SoundFile(path) as file:
        rate, subtype = file.samplerate, file.subtype
        values = file.read(dtype=WHOLE.get(subtype, "float64"), always_2d=True)
    time = np.arange(len(values)) / rate
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
            "header": {"subtype": subtype, "rate": rate},
        },
    )


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a recording; its rate follows from the time axis."""
    soundfile = need("soundfile", "io", "writing sound files")
    if len(samples.dims) != 1:
        raise ValueError(f"{path.name}: sound has one axis; got {', '.join(samples.dims)}.")
    values = np.asarray(samples.values)
    if samples.channel_axis == 0:
        values = values.T
    time, header = samples.coords.get(samples.dims[0]), samples.attributes.get("header", {})
    rate = header.get("rate", 44100)
    if time is not None and len(time) > 1:
        rate = round((len(time) - 1) / float(abs(time[-1] - time[0])))
    subtype = header.get("subtype")
    if values.dtype.kind == "f":  # floats beyond 1 would be clipped by a whole-number subtype
        subtype = "FLOAT" if values.dtype == np.float32 else "DOUBLE"
    suffix = path.suffix.lower()
    kind = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}[suffix]
    if not soundfile.check_format(kind, subtype):
        subtype = soundfile.default_subtype(kind)
    soundfile.write(path, values, max(1, int(rate)), subtype=subtype, format=kind)
