"""Models of a stream: samples coded as a target asks, and measured in the same pass."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype
from elmfield._array.typing import Array
from elmfield.field import Field
from elmfield.field.coefficients.tiles import Tiling, Totals
from elmfield.field.rate_control import RateControl, Scope, typical_error
from elmfield.field.step_search import Attempt, Tiles
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.fit.gaps.fill import FilledSlabs
from elmfield.io.model.metadata import Metadata, to_document
from elmfield.io.model.sample_files import Overview, SamplePlan, level_of, overview_of
from elmfield.io.model.save import describe
from elmfield.io.store.stores import Store
from elmfield.io.stream.block_work import Coding, StoredTile
from elmfield.samples import WHOLE, Slab, warn_of_rounding

if TYPE_CHECKING:
    from elmfield.io.stream.fit_stream import Stream

Places = Callable[[str], tuple[Store, Store | None]]


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamCoder(RateControl[StoredTile]):
    """Codes the samples of a stream into a model.

    Parameters
    ----------
    field : Field
        The field of the source.
    stream : Stream
        The source, and who works on it.
    places : callable
        Gives the store of a model of tiles that were coded in one way, by its name, and where notes
        on finished blocks go, if some are kept.
    filled : FilledSlabs or None
        Where gaps are filled; None where nothing is missing.
    tile : tuple of int or None
        Samples of a tile, as a file has them already.
    top : float
        The largest magnitude of a sample.
    n_missing : int
        How many samples are not there.
    """

    field: Field
    stream: "Stream"
    places: Places
    filled: FilledSlabs | None = None
    tile: tuple[int, ...] | None = None
    top: float = 0.0
    n_missing: int = 0

    @cached_property
    def dtype(self) -> str:
        """Return the dtype in which the field computes."""
        return str(self.field.model.coefficient_dtype)

    @cached_property
    def plan(self) -> SamplePlan:
        """Return which samples go into which tiles."""
        boxes = self.field.model.blended.source_samples
        assert boxes is not None
        return SamplePlan(field=self.field, boxes=boxes, dtype=self.dtype, tile=self.tile)

    @property
    def tiling(self) -> Tiling:
        """Return the tiles of the file."""
        return self.plan.samples.tiling

    @cached_property
    def blocks(self) -> list[Slab]:
        """Return what is coded at a time."""
        return self.stream.blocks(self.tiling)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Say what tells this work from another: all but the samples, which blocks tell."""
        return {
            "meta": to_document(describe(self.field, self.dtype).meta),
            "tile": list(self.tiling.tile),
            "sources": [self.stream.slabs.dtype, list(self.stream.slabs.source.shape)],
        }

    @cached_property
    def scope(self) -> Scope:
        """What is coded."""
        return Scope(
            count=self.tiling.n_values - self.n_missing,
            kind=self.plan.kind,
            data_range=self.field.model.data_range,
            is_complex=self.field.model.is_complex,
            dtype=self.dtype,
            top=self.top,
            input_dtype=self.field.model.input_dtype,
        )

    def make(self) -> Attempt[StoredTile]:
        """Code the samples so that they meet the target; without one, without loss."""
        target = self.stream.encode.settings.target
        if target is not None and self.field.model.blended.exact is None:
            raise ValueError(
                f"`{target.kind}` cannot be kept in parts by a function that does not pass through "
                "its samples; fit windows that fit in memory."
            )
        if target is None:
            if self.field.model.input_dtype in WHOLE:
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
            asked=tuple(asked.items()),
            notes=notes,
            filled=self.filled,
            level=level_of(self.tiling),
            effort=self.effort,
            trial=name,
        )
        tiles: Tiles[StoredTile] = {}
        every = [self._around(coding.tiles_in(block)) for block in self.blocks]
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
        return name, self.write_rest(store, made.tiles, means, made.is_lossy, lost)

    def write_rest(
        self,
        store: Store,
        tiles: Tiles[StoredTile],
        means: Overview | None,
        is_lossy: bool = False,
        lost: float = 0.0,
    ) -> Metadata:
        """Write all but tiles of samples and metadata; return the metadata.

        `means` are the overview, `lost` is the root mean square of what coding lost.
        """
        model, gaps = self.field.model, None
        evidence = replace(model.evidence or Evidence(), coding=lost)
        residual = None if is_lossy else model.residual
        field = Field(replace(model, residual=residual, evidence=evidence))
        meta = describe(field, self.dtype).write_arrays(store, compress=True)
        self.plan.samples.write_document(store)
        if self.filled is not None:
            missing = self.plan.missing(1 if self.filled.is_alike else self.tiling.sizes[-1])
            missing.write_document(store)
            coding = Coding(slabs=self.stream.sent, array=missing, model=store, is_of_gaps=True)
            found: Tiles[StoredTile] = {}
            for some in self.stream.engine.each(coding, self.blocks):
                found |= some
            gaps = missing.tiling.sizes[-1], join_checks(found)
        return self.plan.complete(store, meta, join_checks(tiles), gaps, means, is_lossy)


def join_checks(tiles: Tiles[StoredTile]) -> str:
    """Return check sums of tiles as one text, in order."""
    return "".join(tiles[i].check for i in range(len(tiles)))
