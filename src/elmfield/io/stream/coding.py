"""One block of an array: its tiles coded and written, or measured against what a model says.

Everything here can be sent to another process, done twice, or done again after a crash: a block's
result depends on its samples alone, files appear whole, and what is there already is not made anew.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

import numpy as np

from elmfield._array.backend import check_sum, to_numpy
from elmfield._array.memory import capacity, runs
from elmfield._array.threads import n_threads, spread
from elmfield._array.typing import Array, Floats
from elmfield.codec import has_coarse
from elmfield.field import Field
from elmfield.field.streamed import Slabs
from elmfield.field.tiling import TOGETHER, Tiling, packed, packed_many
from elmfield.fit.filling import Filled
from elmfield.fit.survey import blocks_of
from elmfield.io.model.overview import sums_of
from elmfield.io.model.tiles import put_tile
from elmfield.io.stream.places import Files, files_at
from elmfield.samples import Slab

Checks = tuple[dict[int, str], dict[int, str], Array | None, bool]
"""Check sums of tiles by number: of samples, and of what is missing. Sums for an overview. And
whether all tiles begin with a coarse picture."""


HELD = 8
"""Numbers of the fit's dtype held for each sample of a block, about."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Coding:
    """How blocks become coded tiles of a model folder.

    Parameters
    ----------
    slabs : Slabs
        The samples.
    tiling : Tiling
        Tiles, channels included.
    kind : str
        Dtype of samples in the file.
    has_channels : bool
        Whether the array in the file has an axis of channels.
    asked : tuple of pairs
        Of the codec: nothing, a step, or a largest error.
    model, done : str
        Folders, or URLs, of the model and of notes on finished blocks.
    filled : Filled or None
        Where gaps are filled; None where nothing is missing.
    missing : Tiling or None
        Tiles of what was missing.
    level : int or None
        Of the overview; None if there is none.
    """

    slabs: Slabs
    tiling: Tiling
    kind: str
    has_channels: bool
    asked: tuple[tuple[str, float], ...]
    model: str
    done: str
    filled: Filled | None = None
    missing: Tiling | None = None
    level: int | None = None

    def __call__(self, slab: Slab, values: Array | None = None) -> Checks:
        """Code the tiles of a block; check sums of samples and of what is missing, by number."""
        gone = None
        if self.filled is not None:
            y, gone, seen = self.filled.part(slab)
        else:
            values = self.slabs.read(slab) if values is None else np.asarray(values)
            y, seen = values, check_sum(values)
        notes, note = files_at(self.done), "-".join(str(s.start) for s in slab) + ".json"
        known = _noted(notes, note, seen)
        if known is not None:
            return known
        if self.filled is None:
            y = self.slabs.part(slab, values)[0]
        sink, asked, many = files_at(self.model), dict(self.asked), self.has_channels

        def work(some: Sequence[int]) -> list[tuple[str, bool]]:
            cut = [self._cut(y, slab, self.tiling.slab(i)).astype(self.kind) for i in some]
            tiles = packed_many(cut, **asked)
            return [
                (put_tile(sink, "samples", self.tiling, i, tile, many), has_coarse(tile))
                for i, tile in zip(some, tiles)
            ]

        def mark(number: int) -> str:
            assert gone is not None
            assert self.missing is not None
            tile = packed(self._cut(gone, slab, self.missing.slab(number)).astype(np.uint8))
            many = self.missing.sizes[-1] > 1
            return put_tile(sink, "missing", self.missing, number, tile, many)

        numbers = tiles_in(self.tiling, slab)
        most = max(1, min(TOGETHER, len(numbers) // n_threads()))
        shares = [numbers[a:b] for a, b in runs(len(numbers), most)]
        done = list(chain.from_iterable(spread(work, shares)))
        checks, coarse = (
            [dict(zip(numbers, (check for check, _ in done))), {}],
            all(c for _, c in done),
        )
        if self.missing is not None:
            numbers = tiles_in(self.missing, slab)
            checks[1] = dict(zip(numbers, spread(mark, numbers)))
        sums = None
        if self.level is not None:
            sums = sums_of(self.tiling, self.level, slab, y.astype(self.kind))
        text = None if sums is None else b64encode(sums.tobytes()).decode()
        about = {"seen": seen, "checks": checks, "sums": text, "coarse": coarse}
        about["shape"] = [] if sums is None else list(sums.shape)
        notes.put(note, json.dumps(about).encode())
        return checks[0], checks[1], sums, coarse

    @staticmethod
    def _cut(values: Array, slab: Slab, tile: Slab) -> Array:
        """A tile of a block, channels included."""
        *at, channels = tile
        inner = tuple(slice(a.start - s.start, a.stop - s.start) for a, s in zip(at, slab))
        return values[(*inner, channels)]


def _noted(notes: Files, note: str, seen: int) -> Checks | None:
    """Check sums of a block that is done already, of the same samples; else None."""
    try:
        found = json.loads(notes.read(note))
    except (OSError, ValueError):
        return None
    if found.get("seen") != seen or "coarse" not in found:
        return None
    first, second = ({int(k): str(v) for k, v in part.items()} for part in found["checks"])
    sums = None
    if found["sums"] is not None:
        sums = np.frombuffer(b64decode(found["sums"])).reshape(found["shape"])
    return first, second, sums, bool(found["coarse"])


@dataclass(frozen=True, eq=False, kw_only=True)
class Seeing:
    """How blocks of a model are added up for its overview.

    Parameters
    ----------
    model, version : str
        As for `Measuring`.
    tiling : Tiling
        Its tiles.
    level : int
        Of the overview.
    """

    model: str
    version: str
    tiling: Tiling
    level: int

    def __call__(self, slab: Slab, values: Array | None = None) -> Array:
        """Sums of the samples that a block gives back."""
        boxes = _opened(self.model, self.version).blended.made_of
        assert boxes is not None
        return sums_of(self.tiling, self.level, slab, boxes.kept(slab))


def tiles_in(tiling: Tiling, slab: Slab) -> list[int]:
    """Numbers of the tiles that make up a slab of the axes that are not channels."""
    every = [
        np.arange((s.start - a) // t, -(-(s.stop - a) // t))
        for s, a, t in zip(slab, tiling.low, tiling.tile)
    ]
    grid = np.meshgrid(*every, np.arange(tiling.counts[-1]), indexing="ij")
    return [int(n) for n in np.ravel_multi_index(grid, tiling.counts).reshape(-1)]


# --- errors ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """What errors at samples come to, so far.

    Parameters
    ----------
    squares, moduli, largest : float
        Sum of the squared errors, sum of their magnitudes, and the largest of these.
    count, missing : int
        Samples that are there, and that are not.
    low, high : float
        The least and the largest sample, of all channels; of complex ones, in magnitude.
    ends : pair of float
        The same with real and imaginary parts apart.
    each, peaks : arrays, shape (C,)
        Sum of the squared errors, and the largest sample, of each channel.
    """

    squares: float = 0.0
    moduli: float = 0.0
    largest: float = 0.0
    count: int = 0
    missing: int = 0
    low: float = math.inf
    high: float = -math.inf
    ends: tuple[float, float] = (math.inf, -math.inf)
    each: Floats = field(default_factory=lambda: np.zeros(1))
    peaks: Floats = field(default_factory=lambda: np.full(1, -np.inf))

    def __or__(self, other: "Score") -> "Score":
        """Of the samples of both."""
        return Score(
            squares=self.squares + other.squares,
            moduli=self.moduli + other.moduli,
            largest=max(self.largest, other.largest),
            count=self.count + other.count,
            missing=self.missing + other.missing,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            ends=(min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])),
            each=self.each + other.each,
            peaks=np.maximum(self.peaks, other.peaks),
        )

    @property
    def mean_square(self) -> float:
        """Mean squared error."""
        return self.squares / max(1, self.count)

    def psnr(self, data_range: float | None = None) -> float:
        """In dB of the samples' range, or of another one; see `elmfield.psnr`."""
        span = self.ends[1] - self.ends[0] or 1.0  # of samples all alike, as `peak_to_peak` has it
        peak = span if data_range is None else data_range
        if not peak > 0:
            raise ValueError(f"`data_range` must be positive; got {peak!r}.")
        mean = self.mean_square
        return math.inf if mean == 0 else 10 * math.log10(peak**2 / mean)

    @property
    def paper_psnr(self) -> float | None:
        """The paper's, of real samples of which none is missing; None where a peak is below 0."""
        if self.missing or not (self.peaks > 0).all():
            return None
        means = self.each / (self.count / len(self.peaks)) / self.peaks**2
        return float(np.mean(-10 * np.log10(means + 1e-8)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Measuring:
    """How blocks are compared with what a model gives back.

    Parameters
    ----------
    slabs : Slabs
        The samples.
    model : str
        The model file or folder.
    version : str
        What tells it from another one at the same place.
    """

    slabs: Slabs
    model: str
    version: str = ""

    def __call__(self, slab: Slab, values: Array | None = None) -> Score:
        """The errors at the samples of a block."""
        return scored(_opened(self.model, self.version), self.slabs, slab, values)[0]


@lru_cache(maxsize=2)
def _opened(model: str, version: str) -> Field:
    from elmfield.io.model.restore import load

    return load(model)


def blocks_beside(model: Field, slabs: Slabs) -> list[Slab]:
    """Slabs in which a field is compared with samples: of whole tiles, where it has some."""
    boxes = model.blended.made_of
    coded = None if boxes is None else boxes.coded
    tile = [64] * len(model.shape) if coded is None else coded.tiling.tile[:-1]
    each = HELD * 8 * slabs.shape[-1]
    return blocks_of(model.shape, tile, 8 * capacity(np.empty(0)) // each)


def scored(
    model: Field, slabs: Slabs, slab: Slab, values: Array | None = None
) -> tuple[Score, Array]:
    """Errors at the samples of a block: what they come to, and each of them, (..., channels).

    What a caller gets back counts, its rounding too; 0 where a sample is missing.
    """
    y, present, _ = slabs.part(slab, values)
    f = model.blended.on_grid([np.arange(s.start, s.stop, dtype=float) for s in slab])
    f = to_numpy(f).astype(model.offset.dtype) * model.scale + model.offset
    f = np.round(f) if model.blended.gives_whole_numbers else f
    gap = np.abs(f.astype(np.float64) - y)
    C = model.n_channels
    e = np.hypot(gap[..., :C], gap[..., C:]) if model.is_complex else gap
    size = np.hypot(y[..., :C], y[..., C:]) if model.is_complex else y
    here = None if present is None else present[..., :C]
    peaks = np.where(here, size, -np.inf) if here is not None else size
    peaks = peaks.max(axis=tuple(range(y.ndim - 1)))
    parts = y if present is None else y[present]
    if here is not None:
        e = np.where(here, e, 0)
        size = size[here]
    count = e.size if here is None else int(np.count_nonzero(here))
    with np.errstate(over="ignore"):  # infinite where float64 has no squares
        squares = e * e
    return Score(
        squares=float(np.sum(squares)),
        moduli=float(np.sum(e)),
        largest=float(np.max(e, initial=0)),
        count=count,
        missing=e.size - count,
        low=float(np.min(size, initial=math.inf)),
        high=float(np.max(size, initial=-math.inf)),
        ends=(float(np.min(parts, initial=math.inf)), float(np.max(parts, initial=-math.inf))),
        each=squares.sum(axis=tuple(range(e.ndim - 1))),
        peaks=np.asarray(peaks, np.float64),
    ), e
