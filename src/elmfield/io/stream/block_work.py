"""One block of an array: its tiles coded, measured and written; or compared with a model.

Everything here can be sent to another process, done twice, or done again after a crash: a block's
result depends on its samples alone, files appear whole, and what is there already is not made anew.
"""

import json
import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from elmfield._array.backend import as_dtype, crc32, to_numpy
from elmfield._array.channel_stats import ChannelStats
from elmfield._array.checks import USUAL_EFFORT
from elmfield._array.running import capacity
from elmfield._array.typing import Array, Floats
from elmfield.codec import has_coarse
from elmfield.field import Field
from elmfield.field.accuracy import error_sums
from elmfield.field.coefficients.tiles import code_tiles, sums_of
from elmfield.fit.gaps.fill import FilledSlabs
from elmfield.fit.statistics import Slabs, blocks_of
from elmfield.io.model.sample_files import TileArray
from elmfield.io.store.blocks import strip_check
from elmfield.io.store.stores import RemoteStore, Store
from elmfield.samples import WHOLE, Slab

NUMBERS_PER_SAMPLE = 8
"""Numbers of the fit's dtype held for each sample of a block, about."""


@dataclass(frozen=True, eq=False)
class TileResult:
    """What is known of a tile once it is written.

    Parameters
    ----------
    check : str
        Its check sum.
    is_coarse : bool
        Whether it begins with a coarse picture.
    errors : triple of float
        Of what was coded, at the numbers that are there: the sum of squared errors, the largest
        error, and how many there are. Real and imaginary parts are two numbers.
    sums : array or None
        Sums of its samples for an overview.
    """

    check: str
    is_coarse: bool = False
    errors: tuple[float, float, int] = (0.0, 0.0, 0)
    sums: Array | None = None


Results = tuple[dict[int, TileResult], dict[int, TileResult]]
"""Of the tiles of samples of a block, and of those of what was missing, by number."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Coding:
    """How blocks become coded tiles of a model folder.

    Parameters
    ----------
    slabs : Slabs
        The samples.
    samples : TileArray
        Their tiles, channels included.
    asked : tuple of pairs
        Of the codec: nothing, a step, or a largest error.
    model : Store
        Where tiles go.
    notes : Store or None
        Where notes on finished blocks go, if some are kept.
    filled : FilledSlabs or None
        Where gaps are filled; None where nothing is missing.
    missing : TileArray or None
        Tiles of what was missing.
    level : int or None
        Of the overview; None if there is none.
    effort : int
        Of coding with loss.
    """

    slabs: Slabs
    samples: TileArray
    asked: tuple[tuple[str, float], ...]
    model: Store
    notes: Store | None
    filled: FilledSlabs | None = None
    missing: TileArray | None = None
    level: int | None = None
    effort: int = USUAL_EFFORT

    def __call__(self, slab: Slab, values: Array | None = None) -> Results:
        """Code the tiles of a block, or find that this was done before."""
        gone = None
        if self.filled is not None:
            y, gone, seen = self.filled.part(slab)
        else:
            values = self.slabs.raw(slab) if values is None else np.asarray(values)
            y, seen = values, crc32(values)
        note = "-".join(str(s.start) for s in slab) + ".json"
        known = self._read_results(note, slab, seen)
        if known is not None:
            return known
        kind = self.samples.dtype
        if self.filled is None:
            y = self.slabs.read(slab, values)
        elif gone is not None and kind in WHOLE:  # which `y` rounds
            y = np.where(gone, as_dtype(y, kind), self.slabs.read(slab))
        y = y.astype(kind, copy=False)
        found = self._code(self.samples, y, slab, gone), dict[int, TileResult]()
        if self.missing is not None and gone is not None:
            found = found[0], self._code(self.missing, gone.astype(np.uint8), slab)
        if self.notes is not None:
            tiles = [{i: vars(tile) for i, tile in of.items()} for of in found]
            noted = json.dumps({"seen": seen, "tiles": tiles}, default=np.ndarray.tolist)
            self.notes.write(note, noted.encode())
        return found

    def load(self, slab: Slab) -> Array | None:
        """Return the values of a block, to be read while another one is coded."""
        return self.slabs.raw(slab) if self.filled is None else None

    def _code(
        self, array: TileArray, values: Array, slab: Slab, gone: Array | None = None
    ) -> dict[int, TileResult]:
        """Write the tiles of a block, on all threads, each measured as it is coded."""
        of_samples = array is self.samples
        asked = dict(self.asked) if of_samples else {}

        def cut(values: Array, number: int) -> Array:
            *at, channels = array.tiling.slab(number)
            inner = [slice(a.start - s.start, a.stop - s.start) for a, s in zip(at, slab)]
            return values[(*inner, channels if values.shape[-1] > 1 else slice(None))]

        def finish(number: int, y: Array, data: bytes, found: Array) -> TileResult:
            errors, sums = (0.0, 0.0, y.size), None
            if asked:
                gap = np.subtract(found, y, dtype=np.float64)
                there = None if gone is None else ~cut(gone, number)
                errors = error_sums(np.abs(gap, out=gap), there)
            if of_samples and self.level is not None:
                tiling = array.tiling
                sums = sums_of(tiling, self.level, tiling.slab(number)[:-1], found)
            return TileResult(
                array.write_tile(self.model, number, data), has_coarse(data), errors, sums
            )

        numbers = _tiles_in(array, slab)
        of_tile = partial(cut, values)
        return dict(zip(numbers, code_tiles(numbers, of_tile, finish, effort=self.effort, **asked)))

    def _read_results(self, note: str, slab: Slab, seen: int) -> Results | None:
        """Return what was noted of a block of the same samples, if its tiles are there."""
        if self.notes is None:
            return None
        try:
            found = json.loads(self.notes.read(note))
            samples, missing = (
                {int(i): TileResult(**tile) for i, tile in of.items()} for of in found["tiles"]
            )
            there = found["seen"] == seen and self._has_tiles(self.samples, slab, samples)
            if there and self.missing is not None:
                there = self._has_tiles(self.missing, slab, missing)
            there = there and all(
                (t.sums is None) == (self.level is None) for t in samples.values()
            )
        except Exception:  # there is none, or it was not written here, or a tile is gone
            return None
        return (samples, missing) if there else None

    def _has_tiles(self, array: TileArray, slab: Slab, found: dict[int, TileResult]) -> bool:
        """Whether the tiles of a block are complete; what a URL says is believed."""
        if sorted(found) != _tiles_in(array, slab):
            return False
        if isinstance(self.model, RemoteStore):
            return True
        tiles = ((self.model.read(array.key(i)), tile.check) for i, tile in found.items())
        return all(strip_check(t) and t[-4:].hex() == check for t, check in tiles)


def _tiles_in(array: TileArray, slab: Slab) -> list[int]:
    """Numbers of the tiles that make up a slab of the axes that are not channels, ascending."""
    low, high = zip(*((s.start, s.stop) for s in slab))
    return array.tiling.part((*low, 0), (*high, array.tiling.high[-1]))[1]


# --- errors ---------------------------------------------------------------------------------------


NONE_SEEN = ChannelStats(
    np.full(1, np.inf), np.full(1, -np.inf), np.zeros(1), np.zeros(1, np.int64)
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """What errors at samples come to, so far.

    Parameters
    ----------
    errors, sizes : ChannelStats
        Of the errors, and of the samples; of complex ones, in magnitude.
    numbers : ChannelStats
        Of the samples with real and imaginary parts apart.
    squares : array, shape (C,)
        Sum of the squared errors of each channel.
    missing : int
        Samples that are not there.
    """

    errors: ChannelStats = NONE_SEEN
    sizes: ChannelStats = NONE_SEEN
    numbers: ChannelStats = NONE_SEEN
    squares: Floats = field(default_factory=lambda: np.zeros(1))
    missing: int = 0

    def __or__(self, other: "Score") -> "Score":
        """Of the samples of both."""
        return Score(
            errors=self.errors | other.errors,
            sizes=self.sizes | other.sizes,
            numbers=self.numbers | other.numbers,
            squares=self.squares + other.squares,
            missing=self.missing + other.missing,
        )

    @property
    def count(self) -> int:
        """Samples that are there; 1 where there is none, to divide by."""
        return max(1, int(self.errors.count.sum()))

    @property
    def mean_square(self) -> float:
        """Mean squared error."""
        return float(self.squares.sum()) / self.count

    def psnr(self, data_range: float | None = None) -> float:
        """In dB of the samples' range, or of another one; see `elmfield.psnr`."""
        peak = self.numbers.data_range if data_range is None else data_range
        if not peak > 0:
            raise ValueError(f"`data_range` must be positive; got {peak!r}.")
        mean = self.mean_square
        return math.inf if mean == 0 else 10 * math.log10(peak**2 / mean)

    @property
    def paper_psnr(self) -> float | None:
        """The paper's, of real samples of which none is missing; None where a peak is below 0."""
        if self.missing or not (self.sizes.high > 0).all():
            return None
        means = self.squares / self.errors.count / self.sizes.high**2
        return float(np.mean(-10 * np.log10(means + 1e-8)))


def blocks_of_model(model: Field, slabs: Slabs) -> list[Slab]:
    """Slabs in which a field is compared with samples: of whole tiles, where it has some."""
    boxes = model.model.blended.source_samples
    tiles = None if boxes is None else boxes.tiles
    tile = [64] * len(model.shape) if tiles is None else tiles.tiling.tile[:-1]
    each = NUMBERS_PER_SAMPLE * 8 * slabs.shape[-1]
    return blocks_of(model.shape, tile, 8 * capacity(np.empty(0)) // each)


def measure_block(
    model: Field, slabs: Slabs, slab: Slab, values: Array | None = None
) -> tuple[Score, Array]:
    """Errors at the samples of a block: what they come to, and each of them, (..., channels).

    What a caller gets back counts, its rounding too; 0 where a sample is missing.
    """
    y, present, _ = slabs.part(slab, values)
    boxes = model.model.blended.exact
    if boxes is None:
        f = model.model.blended.at_samples([np.arange(s.start, s.stop, dtype=float) for s in slab])
        f = to_numpy(f).astype(model.model.offset.dtype) * model.model.scale + model.model.offset
    else:
        f = to_numpy(boxes.read(slab))
    return compare(y, f, present, model.model.is_complex)


def compare(y: Array, f: Array, present: Array | None, is_complex: bool) -> tuple[Score, Array]:
    """Errors of values f at samples y, (..., C): what they come to, and each of them.

    Of complex samples the parts are channels, all real parts first.
    """
    y = y.astype(np.float64, copy=False)
    gap = np.abs(f.astype(np.float64, copy=False) - y)
    C = y.shape[-1] // (1 + is_complex)
    e = np.hypot(gap[..., :C], gap[..., C:]) if is_complex else gap
    size = np.hypot(y[..., :C], y[..., C:]) if is_complex else y
    there = None if present is None else np.broadcast_to(present, y.shape)
    here = None if there is None else there[..., :C]
    e = e if here is None else np.where(here, e, 0)
    errors, sizes = ChannelStats.of(e, here), ChannelStats.of(size, here)
    with np.errstate(over="ignore"):  # infinite where float64 has no squares
        squares = np.square(e).sum(axis=tuple(range(e.ndim - 1)))
    return Score(
        errors=errors,
        sizes=sizes,
        numbers=ChannelStats.of(y, there) if is_complex else sizes,
        squares=squares,
        missing=e.size - int(errors.count.sum()),
    ), e
