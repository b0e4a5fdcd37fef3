"""Blocks of an array: coded as a target asks, measured and written; or compared with a model.

What is done to a block can be sent to another process, done twice, or done again after a crash: its
result depends on its samples alone, files appear whole, and what is there already is not made anew.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype, crc32, to_numpy
from elmfield._array.channel_stats import ChannelStats
from elmfield._array.running import capacity
from elmfield._array.typing import Array
from elmfield.codec import has_coarse
from elmfield.field import Field
from elmfield.field.code_samples import RateControl, Scope, typical_error
from elmfield.field.coefficients.tiles import Tiling, Totals, code_tiles, sums_of
from elmfield.field.step_search import Attempt, CodedTile, Tiles
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.fit.gaps.fill import FilledSlabs
from elmfield.fit.statistics import Slabs, blocks_of
from elmfield.io.model.metadata import Metadata, to_plain
from elmfield.io.model.sample_files import Overview, SamplePlan, TileArray, level_of, overview_of
from elmfield.io.model.save import describe
from elmfield.io.store.blocks import strip_check
from elmfield.io.store.stores import RemoteStore, Store
from elmfield.measure.metrics import Errors
from elmfield.samples import WHOLE, Slab, warn_of_rounding

if TYPE_CHECKING:
    from elmfield.io.stream.fit_stream import Stream

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
    asked : mapping
        Of the codec: an effort, and a step or a largest error where something may be lost.
    notes : Store or None
        Where notes on finished blocks go, if some are kept.
    filled : FilledSlabs or None
        Where gaps are filled; None where nothing is missing.
    is_of_gaps : bool
        Whether what is missing is coded, not the samples.
    level : int or None
        Of the overview; None if there is none.
    trial : str
        What the model is called.
    """

    slabs: Slabs
    array: TileArray
    model: Store
    numbers: Container[int] | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    notes: Store | None = None
    filled: FilledSlabs | None = None
    is_of_gaps: bool = False
    level: int | None = None
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
        if (known := self._read_results(note, numbers, seen)) is not None:
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
        tiling, first = self.array.tiling, [s.start for s in slab]
        there = None if gone is None else partial(tiling.cut, ~gone, first=first)

        def finish(number: int, data: bytes, found: Array, errors: Errors) -> StoredTile:
            sums = None
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

        own = partial(tiling.cut, values, first=first)
        found = code_tiles(numbers, own, finish, there=there, **self.asked)
        return dict(zip(numbers, found))

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


# --- all blocks -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamCoder(RateControl[StoredTile]):
    """Codes the samples of a stream into a model.

    Parameters
    ----------
    plan : SamplePlan
        Which samples of the field of the source go into which tiles.
    stream : Stream
        The source, and who works on it.
    places : callable
        Gives the store of a model of tiles that were coded in one way, by its name, and where notes
        on finished blocks go, if some are kept.
    filled : FilledSlabs or None
        Where gaps are filled; None where nothing is missing.
    top : float
        The largest magnitude of a sample.
    n_missing : int
        How many samples are not there.
    """

    plan: SamplePlan
    stream: "Stream"
    places: Callable[[str], tuple[Store, Store | None]]
    filled: FilledSlabs | None = None
    top: float = 0.0
    n_missing: int = 0

    @property
    def tiling(self) -> Tiling:
        """Return the tiles of the file."""
        return self.plan.samples.tiling

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Say what tells this work from another: all but the samples, which blocks tell."""
        return {
            "meta": to_plain(describe(self.plan.field, self.plan.dtype).meta),
            "tile": list(self.tiling.tile),
            "sources": [self.stream.slabs.dtype, list(self.stream.slabs.source.shape)],
        }

    @cached_property
    def scope(self) -> Scope:
        """What is coded."""
        return Scope(
            count=self.tiling.n_values - self.n_missing,
            kind=self.plan.kind,
            data_range=self.plan.field.model.data_range,
            is_complex=self.plan.field.model.is_complex,
            dtype=self.plan.dtype,
            top=self.top,
            input_dtype=self.plan.field.model.input_dtype,
        )

    def make(self) -> Attempt[StoredTile]:
        """Code the samples so that they meet the target; without one, without loss."""
        target = self.stream.encode.settings.target
        if target is not None and self.plan.field.model.blended.exact is None:
            raise ValueError(
                f"`{target.kind}` cannot be kept in parts by a function that does not pass through "
                "its samples; fit windows that fit in memory."
            )
        if target is None:
            if self.plan.field.model.input_dtype in WHOLE:
                warn_of_rounding(self.top)
            return self.code()
        return self.meet(target)

    def values(self, number: int) -> Array:
        """The samples of a tile, channels last, in the dtype of a file."""
        *slab, channels = self.tiling.slab(number)
        source = self.stream.slabs if self.filled is None else self.filled
        return as_dtype(source.part(tuple(slab))[0][..., channels], self.plan.kind)

    def code_tiles(self, numbers: Sequence[int], **asked: float) -> Tiles[StoredTile]:
        """Some tiles in a model, coded as asked; without loss if nothing is."""
        name = "-".join(["as", *(f"{k}-{float(v).hex()}" for k, v in asked.items())])
        model, notes = self.places(name)
        coding = Coding(
            slabs=self.stream.sent,
            array=self.plan.samples,
            model=model,
            numbers=numbers if isinstance(numbers, range) else frozenset(numbers),
            asked={**asked, "effort": self.effort},
            notes=notes,
            filled=self.filled,
            level=level_of(self.tiling),
            trial=name,
        )
        tiles: Tiles[StoredTile] = {}
        every = [self._around(coding.tiles_in(block)) for block in self.stream.blocks(self.tiling)]
        for found in self.stream.engine.each(coding, [slab for slab in every if slab]):
            tiles |= found
            self.stream.progress("fit", len(tiles), len(numbers))
        return tiles

    def _around(self, numbers: Sequence[int]) -> Slab:
        """Return the smallest slab that holds some tiles; nothing if there are none."""
        slabs = [self.tiling.slab(i)[:-1] for i in numbers]
        return tuple(
            slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*slabs)
        )

    def put_together(self, made: Attempt[StoredTile]) -> tuple[str, Metadata]:
        """Bring the tiles of an attempt to one model; return its name and its metadata."""
        name = Counter(tile.trial for tile in made.tiles.values()).most_common(1)[0][0]
        store, key = self.places(name)[0], self.plan.samples.key
        for number, tile in made.tiles.items():
            if tile.trial != name:
                store.write(key(number), self.places(tile.trial)[0].read(key(number)))
        k, means = level_of(self.tiling), None
        if k is not None and not (made.is_lossy and all(t.is_coarse for t in made.tiles.values())):
            totals = Totals(self.tiling, k)
            for number, tile in made.tiles.items():
                *slab, channels = self.tiling.slab(number)
                totals.add(slab, np.asarray(tile.sums), channels)
            means = overview_of(totals, self.plan.kind)
        lost = typical_error(made.errors)
        checks = {number: tile.check for number, tile in made.tiles.items()}
        return name, self.write_rest(store, checks, means, made.is_lossy, lost)

    def write_rest(
        self,
        store: Store,
        checks: dict[int, str],
        means: Overview | None,
        is_lossy: bool = False,
        lost: float = 0.0,
    ) -> Metadata:
        """Write all but tiles of samples and metadata; return the metadata.

        `checks` are the check sums of all tiles, `means` the overview, `lost` is the root mean
        square of what coding lost.
        """
        model, gaps = self.plan.field.model, None
        evidence = replace(model.evidence or Evidence(), coding=lost)
        residual = None if is_lossy else model.residual
        field = Field(replace(model, residual=residual, evidence=evidence))
        meta = describe(field, self.plan.dtype).write_arrays(store, compress=True)
        self.plan.samples.write_document(store)
        if self.filled is not None:
            missing = self.plan.missing(1 if self.filled.is_alike else self.tiling.sizes[-1])
            missing.write_document(store)
            coding = Coding(slabs=self.stream.sent, array=missing, model=store, is_of_gaps=True)
            found: dict[int, str] = {}
            for some in self.stream.engine.each(coding, self.stream.blocks(self.tiling)):
                found |= {number: tile.check for number, tile in some.items()}
            gaps = missing.tiling.sizes[-1], "".join(found[i] for i in sorted(found))
        every = "".join(checks[i] for i in sorted(checks))
        return self.plan.complete(store, meta, every, gaps, means, is_lossy)


# --- errors ---------------------------------------------------------------------------------------


def compare(field: Field, slabs: Slabs, errors: Array | None = None) -> dict[str, Any]:
    """Return scores of a field at all samples of a source, read slab by slab.

    What a caller gets back counts, its rounding too; of complex samples moduli do. The error of
    each sample, 0 where it is missing, is written to `errors`, (..., channels), if that is given.
    """
    model, boxes = field.model, field.model.blended.source_samples
    tiles, exact = None if boxes is None else boxes.tiles, model.blended.exact
    tile = [64] * len(field.shape) if tiles is None else tiles.tiling.tile[:-1]
    room = capacity(np.empty(0)) // (NUMBERS_PER_SAMPLE * slabs.shape[-1])
    parts = []
    for slab in blocks_of(field.shape, tile, room):
        y, present, _ = slabs.part(slab)
        if exact is None:
            f = model.blended.at_samples([np.arange(s.start, s.stop, dtype=float) for s in slab])
            f = to_numpy(f).astype(model.offset.dtype) * model.scale + model.offset
        else:
            f = to_numpy(exact.read(slab))
        numbers = y.astype(np.float64, copy=False)
        e, size = np.abs(f.astype(np.float64, copy=False) - numbers), numbers
        if model.is_complex:  # all real parts first
            e, size = (np.hypot(*np.split(x, 2, axis=-1)) for x in (e, size))
        there = None if present is None else np.broadcast_to(present, y.shape)
        here = None if there is None else there[..., : e.shape[-1]]
        e = e if here is None else np.where(here, e, 0)
        with np.errstate(over="ignore"):  # infinite where float64 has no squares
            squares = np.square(e)
        own = ((e, here), (squares, here), (size, here), (numbers, there))
        parts.append([ChannelStats.of(*values) for values in own])
        if errors is not None:
            errors[slab] = e
    off, squared, sizes, every = (reduce(or_, stats) for stats in zip(*parts))
    count = int(off.count.sum())
    mean, n = float(squared.total.sum()) / max(1, count), math.prod(field.shape) * len(off.count)

    def psnr(peak: float) -> float:
        return math.inf if mean == 0 else 10 * math.log10(peak**2 / mean)

    found = {
        "psnr_db": psnr(every.data_range),
        "mae": float(off.total.sum()) / max(1, count),
        "rmse": math.sqrt(mean),
        "max_error": float(off.high.max()),
        "range": [float(sizes.low.min()), float(sizes.high.max())],
        "samples": n,
        "missing": n - count,
    }
    if slabs.dtype == "uint8":
        found["psnr_255_db"] = psnr(255)
    if not model.is_complex and count == n and (sizes.high > 0).all():
        means = squared.total / off.count / sizes.high**2
        found["paper_psnr_db"] = float(np.mean(-10 * np.log10(means + 1e-8)))
    return found
