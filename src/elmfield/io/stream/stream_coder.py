"""Models of a stream: samples coded as a target asks, and measured in the same pass."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype
from elmfield._array.checks import USUAL_EFFORT
from elmfield._array.typing import Array
from elmfield.field import Field
from elmfield.field.coefficients.tiles import Tiling, Totals
from elmfield.field.rate_control import RateControl, Scope, typical_error
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.fit.gaps.fill import FilledSlabs
from elmfield.io.model.metadata import Metadata, to_document, write_metadata
from elmfield.io.model.sample_files import Overview, SamplePlan, TileArray, level_of, overview_of
from elmfield.io.model.save import describe
from elmfield.io.store.stores import Store
from elmfield.io.stream.block_work import Coding, TileResult
from elmfield.io.stream.work_folder import Work
from elmfield.samples import WHOLE, Slab, warn_of_rounding

if TYPE_CHECKING:
    from elmfield.io.stream.fit_stream import Stream


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamLayout:
    """How the samples of a stream are laid out in a model.

    Parameters
    ----------
    field : Field
        The field of the source.
    stream : Stream
        The source, and who works on it.
    filled : FilledSlabs or None
        Where gaps are filled; None where nothing is missing.
    tile : tuple of int or None
        Samples of a tile, as a file has them already.
    """

    field: Field
    stream: "Stream"
    filled: FilledSlabs | None = None
    tile: tuple[int, ...] | None = None

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
    def missing(self) -> TileArray | None:
        """Return the array of what was missing; None where nothing was."""
        if self.filled is None:
            return None
        return self.plan.missing(1 if self.filled.is_alike else self.tiling.sizes[-1])

    def write_rest(
        self,
        store: Store,
        checks: tuple[str, str],
        means: Overview | None,
        is_lossy: bool = False,
        lost: float = 0.0,
    ) -> Metadata:
        """Write all but tiles and metadata; return the metadata.

        `means` are the overview, `lost` is the root mean square of what coding lost.
        """
        model = self.field.model
        evidence = replace(model.evidence or Evidence(), coding=lost)
        residual = None if is_lossy else model.residual
        field = Field(replace(model, residual=residual, evidence=evidence))
        meta = describe(field, self.dtype).write_arrays(store, compress=True)
        missing, gaps = self.missing, None
        self.plan.samples.write_document(store)
        if missing is not None:
            missing.write_document(store)
            gaps = missing.tiling.sizes[-1], checks[1]
        return self.plan.complete(store, meta, checks[0], gaps, means, is_lossy)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialModel:
    """A model in the work folder.

    Parameters
    ----------
    coder : StreamCoder
        What made it.
    name : str
        Of its folder.
    errors : pair of float
        Mean squared and largest error at the samples.
    """

    coder: "StreamCoder"
    name: str
    errors: tuple[float, float]

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of its samples."""
        sizes = self.coder.work.model(self.name).sizes()
        return sum(n - 4 for key, n in sizes.items() if key.startswith("samples/c/"))


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamCoder(StreamLayout, RateControl[TrialModel]):
    """Codes the samples of a stream into models in a work folder.

    Parameters
    ----------
    work : Work
        Where models grow.
    top : float
        The largest magnitude of a sample.
    effort : int
        Of coding with loss.
    """

    work: Work
    top: float
    effort: int = USUAL_EFFORT

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Say what tells this work from another: all but the samples, which blocks tell."""
        return {
            "meta": to_document(describe(self.field, self.dtype).meta),
            "tile": list(self.tiling.tile),
            "sources": [self.stream.slabs.dtype, list(self.stream.slabs.source.shape)],
        }

    @property
    def scope(self) -> Scope:
        """What is coded."""
        return Scope(
            size=self.tiling.n_values,
            kind=self.plan.kind,
            data_range=self.field.model.data_range,
            is_complex=self.field.model.is_complex,
            dtype=self.dtype,
            top=self.top,
            input_dtype=self.field.model.input_dtype,
        )

    def make(self) -> TrialModel:
        """Make the model that meets the target; without one, the model without loss."""
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

    def code(self, **asked: float) -> TrialModel:
        """Make a model of all samples, coded as asked; without loss if nothing is."""
        name = "-".join(["as", *(f"{k}-{float(v).hex()}" for k, v in asked.items())])
        coding = Coding(
            slabs=self.stream.sent,
            samples=self.plan.samples,
            asked=tuple(asked.items()),
            effort=self.effort,
            model=self.work.model(name),
            notes=self.work.notes(name),
            filled=self.filled,
            missing=self.missing,
            level=level_of(self.tiling),
        )
        tiles: dict[int, TileResult] = {}
        missing: dict[int, TileResult] = {}
        totals = None if coding.level is None else Totals(self.tiling, coding.level)
        for samples, gaps in self.stream.engine.each(coding, self.blocks):
            tiles |= samples
            missing |= gaps
            if totals is not None:
                for number, tile in samples.items():
                    *slab, channels = self.tiling.slab(number)
                    totals.add(slab, np.asarray(tile.sums), channels)
            self.stream.progress("fit", len(tiles), self.tiling.n_tiles)
        all_coarse = bool(asked) and all(tile.is_coarse for tile in tiles.values())
        means = None if totals is None or all_coarse else overview_of(totals, self.plan.kind)
        squares, largest, counts = zip(*(tiles[i].errors for i in sorted(tiles)))
        parts = 2 if self.scope.is_complex else 1  # errors are moduli, at most this much larger
        errors = parts * sum(squares) / max(1, sum(counts)), math.sqrt(parts) * max(largest)
        store, texts = self.work.model(name), (join_checks(tiles), join_checks(missing))
        meta = self.write_rest(store, texts, means, bool(asked), typical_error(errors))
        write_metadata(store, meta)
        return TrialModel(coder=self, name=name, errors=errors)


def join_checks(tiles: dict[int, TileResult]) -> str:
    """Return check sums of tiles as one text, in order."""
    return "".join(tiles[i].check for i in range(len(tiles)))
