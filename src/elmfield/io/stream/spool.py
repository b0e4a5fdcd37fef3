"""A copy of a source on a disk, made chunk by chunk as its samples are first read.

What is slow to read in any but its own chunks, a computed array or the frames of a video, is read
once, in these; windows of any shape, also those of other processes, are then cut from the copy.
"""

import hashlib
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as cartesian
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.backend import is_dask
from elmfield._array.typing import Array
from elmfield.io.lazy_arrays import Lazy
from elmfield.io.store.stores import new_file
from elmfield.samples import Slab

MIN_READS_TO_COPY = 3.0
"""Times that a file would be read for one pass over all blocks, from which a copy is made."""

Spans = tuple[tuple[slice, ...], ...]


@dataclass(frozen=True)
class Spool:
    """An array in NPY files, one for each product of spans; it travels by its name.

    Parameters
    ----------
    folder : Path
        Where the files are.
    shape, dtype : tuple of int, NumPy dtype
        Of the array.
    spans : tuple of tuples of slice
        What is in one file, on each axis.
    """

    folder: Path
    shape: tuple[int, ...]
    dtype: Any
    spans: Spans

    @property
    def slabs(self) -> list[Slab]:
        """Return the slabs that have a file."""
        return [tuple(slab) for slab in cartesian(*self.spans)]

    def _file(self, slab: Sequence[slice]) -> Path:
        return self.folder / ("-".join(str(s.start) for s in slab) + ".npy")

    def has(self, slab: Sequence[slice]) -> bool:
        """Whether all bytes of a file are there."""
        place, n = self._file(slab), math.prod(s.stop - s.start for s in slab)
        return place.exists() and place.stat().st_size > n * np.dtype(self.dtype).itemsize

    def load(self, slab: Sequence[slice]) -> Array | None:
        """Return what was copied of a slab before; None if nothing was."""
        try:
            return np.asarray(np.load(self._file(slab)))
        except (FileNotFoundError, ValueError, EOFError):
            return None

    def save(self, slab: Sequence[slice], values: Array) -> None:
        """Write the samples of one file."""
        with new_file(self._file(slab)) as file:
            np.save(file, values, allow_pickle=False)

    def read(self, slab: Slab = ()) -> Array:
        """Return a slab, cut from the files that it touches."""
        slab = slab or tuple(slice(0, n) for n in self.shape)
        out = np.empty([s.stop - s.start for s in slab], self.dtype)
        touched = (
            [t for t in spans if t.start < s.stop and t.stop > s.start]
            for spans, s in zip(self.spans, slab)
        )
        for file in cartesian(*touched):
            both = [
                (max(t.start, s.start), min(t.stop, s.stop), t.start, s.start)
                for t, s in zip(file, slab)
            ]
            values = np.load(self._file(file), mmap_mode="r")
            out[tuple(slice(a - s, b - s) for a, b, _, s in both)] = values[
                tuple(slice(a - t, b - t) for a, b, t, _ in both)
            ]
        return out


def own_chunks(values: Any) -> list[list[int]] | None:
    """Return lengths of a source's chunks along each axis; None where any window is as good."""
    if is_dask(values):
        return [list(map(int, lengths)) for lengths in values.chunks]
    chunk = values.chunk if isinstance(values, Lazy) else getattr(values, "chunks", None)
    if chunk is None or len(chunk) != len(values.shape):
        return None
    return [
        [min(c, n - a) for a in range(0, n, c)]
        for c, n in zip((max(1, int(c)) for c in chunk), values.shape)
    ]


def count_reads(blocks: Sequence[Slab], chunks: Sequence[Sequence[int]]) -> float:
    """Return how often a chunk is read in one pass over all blocks, a grid of slabs, on average."""
    times = 1.0
    for k, lengths in enumerate(chunks):
        edges = np.cumsum([0, *lengths])
        spans = {(b[k].start, b[k].stop) for b in blocks}
        touched = sum(
            edges[np.searchsorted(edges, b)] - edges[np.searchsorted(edges, a, "right") - 1]
            for a, b in spans
        )
        times *= float(touched) / max(1, edges[-1])
    return times


def merge_chunks(chunks: Sequence[Sequence[int]], room: int) -> Spans:
    """Merge neighbouring chunks, on the last axis first, up to `room` samples."""
    sizes = [max(lengths, default=1) for lengths in chunks]
    spans: list[tuple[slice, ...]] = [()] * len(chunks)
    for k in reversed(range(len(chunks))):
        most = max(sizes[k], room // math.prod(n for j, n in enumerate(sizes) if j != k))
        found, start, end = [], 0, 0
        for n in chunks[k]:
            if end > start and end + n - start > most:
                found.append(slice(start, end))
                start = end
            end += n
        spans[k] = (*found, slice(start, end))
        sizes[k] = max(s.stop - s.start for s in spans[k])
    return tuple(spans)


def make_spool(folder: Path, values: Any, spans: Spans) -> Spool | None:
    """Make an empty copy of a source, or find an earlier one; None if the disk is too small.

    Dask arrays are recognised by their names. A copy of anything else begins anew.
    """
    shape, dtype = tuple(map(int, values.shape)), np.dtype(values.dtype)
    name = "source"
    if is_dask(values):
        about = repr((values.name, shape, dtype.str, spans))
        name += "-" + hashlib.sha256(about.encode()).hexdigest()[:16]
    place = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("source*"):
        if old != place or not is_dask(values):
            shutil.rmtree(old, ignore_errors=True)
    if shutil.disk_usage(folder).free < 2 * math.prod(shape) * dtype.itemsize:
        return None
    place.mkdir(exist_ok=True)
    return Spool(place, shape, dtype, spans)
