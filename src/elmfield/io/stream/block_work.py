"""One block of an array: its tiles coded, measured and written; or compared with a model.

Everything here can be sent to another process, done twice, or done again after a crash: a block's
result depends on its samples alone, files appear whole, and what is there already is not made anew.
"""

import json
import math
from collections.abc import Container
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
from elmfield.field.step_search import CodedTile
from elmfield.fit.gaps.fill import FilledSlabs
from elmfield.fit.statistics import Slabs, blocks_of
from elmfield.io.model.sample_files import TileArray
from elmfield.io.store.blocks import strip_check
from elmfield.io.store.stores import RemoteStore, Store
from elmfield.samples import WHOLE, Slab

NUMBERS_PER_SAMPLE = 8
"""Numbers of the fit's dtype held for each sample of a block, about."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredTile(CodedTile):
    """What is known of a tile once it is written.

    Parameters
    ----------
    check : str
        Its check sum.
    is_coarse : bool
        Whether it begins with a coarse picture.
    sums : array or None
        Sums of its samples for an overview.
    trial : str
        Among which models it is.
    """

    n_bytes: int = 0
    errors: tuple[float, float, int] = (0.0, 0.0, 0)
    check: str
    is_coarse: bool = False
    sums: Array | None = None
    trial: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Coding:
    """How blocks become coded tiles of a model folder.

    Parameters
    ----------
    slabs : Slabs
        The samples.
    array : TileArray
        Their tiles, channels included.
    model : Store
        Where tiles go.
    numbers : container of int or None
        Which tiles are coded; all by default.
    asked : tuple of pairs
        Of the codec: nothing, a step, or a largest error.
    notes : Store or None
        Where notes on finished blocks go, if some are kept.
    filled : FilledSlabs or None
        Where gaps are filled; None where nothing is missing.
    is_of_gaps : bool
        Whether what is missing is coded, not the samples.
    level : int or None
        Of the overview; None if there is none.
    effort : int
        Of coding with loss.
    trial : str
        What the model is called.
    """

    slabs: Slabs
    array: TileArray
    model: Store
    numbers: Container[int] | None = None
    asked: tuple[tuple[str, float], ...] = ()
    notes: Store | None = None
    filled: FilledSlabs | None = None
    is_of_gaps: bool = False
    level: int | None = None
    effort: int = USUAL_EFFORT
    trial: str = ""

    def __call__(self, slab: Slab, values: Array | None = None) -> dict[int, StoredTile]:
        """Code the tiles of a block, or find that this was done before."""
        gone, kind = None, self.array.dtype
        if self.is_of_gaps:
            raw, present, _ = self.slabs.part(slab, values)
            gone = np.zeros(raw.shape, np.uint8) if present is None else (~present).astype(np.uint8)
            return self._code(self.tiles_in(slab), gone, slab, None)
        if self.filled is not None:
            y, gone, seen = self.filled.part(slab)
        else:
            values = self.slabs.raw(slab) if values is None else np.asarray(values)
            y, seen = values, crc32(values)
        numbers = self.tiles_in(slab)
        note = "-".join(str(s.start) for s in slab) + ".json"
        known = self._read_results(note, numbers, seen)
        if known is not None:
            return known
        if self.filled is None:
            y = self.slabs.read(slab, values)
        elif gone is not None and kind in WHOLE:  # which `y` rounds
            y = np.where(gone, as_dtype(y, kind), self.slabs.read(slab))
        found = self._code(numbers, y.astype(kind, copy=False), slab, gone)
        if self.notes is not None:
            tiles = {i: vars(tile) for i, tile in found.items()}
            noted = json.dumps({"seen": seen, "tiles": tiles}, default=np.ndarray.tolist)
            self.notes.write(note, noted.encode())
        return found

    def load(self, slab: Slab) -> Array | None:
        """Return the values of a block, to be read while another one is coded."""
        return self.slabs.raw(slab) if self.filled is None else None

    def tiles_in(self, slab: Slab) -> list[int]:
        """Return the tiles to code in a slab of the axes that are not channels, ascending."""
        low, high = zip(*((s.start, s.stop) for s in slab))
        tiling = self.array.tiling
        inside = tiling.part((*low, 0), (*high, tiling.high[-1]))[1]
        return [i for i in inside if self.numbers is None or i in self.numbers]

    def _code(
        self, numbers: list[int], values: Array, slab: Slab, gone: Array | None
    ) -> dict[int, StoredTile]:
        """Write tiles of a block, on all threads, each measured as it is coded."""
        tiling, asked = self.array.tiling, dict(self.asked)

        def cut(values: Array, number: int) -> Array:
            *at, channels = tiling.slab(number)
            inner = [slice(a.start - s.start, a.stop - s.start) for a, s in zip(at, slab)]
            return values[(*inner, channels if values.shape[-1] > 1 else slice(None))]

        def finish(number: int, y: Array, data: bytes, found: Array) -> StoredTile:
            errors, sums = (0.0, 0.0, y.size), None
            if asked:
                gap = np.subtract(found, y, dtype=np.float64)
                there = None if gone is None else ~cut(gone, number)
                errors = error_sums(np.abs(gap, out=gap), there)
            if self.level is not None:
                sums = sums_of(tiling, self.level, tiling.slab(number)[:-1], found)
            return StoredTile(
                n_bytes=len(data),
                errors=errors,
                check=self.array.write_tile(self.model, number, data),
                is_coarse=has_coarse(data),
                sums=sums,
                trial=self.trial,
            )

        of_tile = partial(cut, values)
        return dict(zip(numbers, code_tiles(numbers, of_tile, finish, effort=self.effort, **asked)))

    def _read_results(
        self, note: str, numbers: list[int], seen: int
    ) -> dict[int, StoredTile] | None:
        """Return what was noted of a block of the same samples, if its tiles are there."""
        if self.notes is None:
            return None
        try:
            found = json.loads(self.notes.read(note))
            tiles = {int(i): StoredTile(**tile) for i, tile in found["tiles"].items()}
            there = found["seen"] == seen and sorted(tiles) == numbers
            there = there and all((t.sums is None) == (self.level is None) for t in tiles.values())
            if not isinstance(self.model, RemoteStore):  # what a URL says is believed
                for i, tile in tiles.items():
                    data = self.model.read(self.array.key(i))
                    there = there and bool(strip_check(data)) and data[-4:].hex() == tile.check
        except Exception:  # there is none, or it was not written here, or a tile is gone
            return None
        return tiles if there else None


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
