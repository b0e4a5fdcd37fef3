"""Models of a stream: samples coded as a target asks, and errors measured against the source."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar

from elmfield._array.backend import as_dtype
from elmfield._array.typing import Array
from elmfield.field import Field
from elmfield.field.coefficients.tiles import Tiling, Totals
from elmfield.field.targets.rate_control import RateControl, Scope
from elmfield.fit.gaps.fill import FilledSlabs
from elmfield.io.model.description import describe
from elmfield.io.model.metadata import Metadata, to_document, write_metadata
from elmfield.io.model.sample_files import SamplePlan, TileArray
from elmfield.io.model.thumbnail import Means, level_of
from elmfield.io.store.stores import Store
from elmfield.io.stream.block_work import (
    NOT_A_NOTE,
    Averaging,
    Coding,
    Measuring,
    Score,
    read_note,
    sums_from_json,
    write_note,
)
from elmfield.io.stream.work_folder import Work
from elmfield.io.stream.workers import Engine, Task
from elmfield.samples import WHOLE, Slab, warn_of_rounding

if TYPE_CHECKING:
    from elmfield.io.stream.fit_stream import Stream

R = TypeVar("R")

CHECK_MAX_SAMPLES = 1 << 22
"""Samples of a model that are compared at a time, about: some seconds of work, which are lost if it
is cut short. Larger parts are slower: 36 float32 frames of 361 x 720 took 20 s in one part, 7 s in
three of 4 M samples, 8 s in six, 14 s tile by tile."""


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
        self, store: Store, checks: tuple[str, str], is_lossy: bool, means: Means | None
    ) -> Metadata:
        """Write all but tiles and metadata; return the metadata. `means` are the overview."""
        field = Field(replace(self.field.model, residual=None)) if is_lossy else self.field
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
    version : str
        Digest of its metadata.
    """

    coder: "StreamCoder"
    name: str
    version: str

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of its samples."""
        sizes = self.coder.work.model(self.name).sizes()
        return sum(n - 4 for key, n in sizes.items() if key.startswith("samples/c/"))

    @cached_property
    def errors(self) -> tuple[float, float]:
        """Mean squared and largest error at the samples."""
        return self.coder.measure(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamCoder(StreamLayout, RateControl[TrialModel]):
    """Codes the samples of a stream into models in a work folder.

    Parameters
    ----------
    work : Work
        Where models grow.
    top : float
        The largest magnitude of a sample.
    """

    work: Work
    top: float

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
            model=self.work.model(name),
            notes=self.work.notes(name),
            filled=self.filled,
            missing=self.missing,
            level=None if asked else level_of(self.tiling),
        )
        checks: dict[int, str] = {}
        missing_checks: dict[int, str] = {}
        totals = None if coding.level is None else Totals(self.tiling, coding.level)
        all_coarse = True
        for block, done in zip(self.blocks, self.stream.engine.each(coding, self.blocks)):
            checks |= done.checks
            missing_checks |= done.missing_checks
            if totals is not None and done.sums is not None:
                totals.add(block, done.sums)
            all_coarse &= done.is_coarse
            self.stream.progress("fit", len(checks), self.tiling.n_tiles)
        texts = join_checks(checks), join_checks(missing_checks)
        means = None if totals is None else Means.of(totals, self.plan.kind)
        made = self._describe(name, texts, bool(asked), means)
        if asked and not all_coarse and (level := level_of(self.tiling)) is not None:
            made = self._describe(name, texts, True, self._overview(made, level))
        return made

    def _overview(self, made: TrialModel, level: int) -> Means:
        """Return means of what a coded model gives back."""
        model, totals = self.work.model(made.name).name, Totals(self.tiling, level)
        task = Averaging(model=model, version=made.version, tiling=self.tiling, level=level)
        engine = self.stream.engine.reading()
        for part, sums in self._run_parts(made, "overview", task, sums_from_json, engine):
            totals.add(part, sums)
        return Means.of(totals, self.plan.kind)

    def _describe(
        self, name: str, checks: tuple[str, str], is_lossy: bool, means: Means | None
    ) -> TrialModel:
        store = self.work.model(name)
        version = write_metadata(store, self.write_rest(store, checks, is_lossy, means))
        return TrialModel(coder=self, name=name, version=version)

    def measure(self, made: TrialModel) -> tuple[float, float]:
        """Return the mean squared and the largest error of a model at the samples."""
        task = Measuring(
            slabs=self.stream.sent, model=self.work.model(made.name).name, version=made.version
        )
        found = self._run_parts(made, "check", task, Measuring.score, self.stream.engine)
        total = reduce(or_, (score for _, score in found), Score())
        return total.mean_square, total.largest

    def _run_parts(
        self,
        made: TrialModel,
        stage: str,
        task: Task[Any],
        read: Callable[[Any], R],
        engine: Engine,
    ) -> Iterator[tuple[Slab, R]]:
        """Yield what a task finds in each part of a model, as `read` has it.

        It is noted part by part: work that was cut short goes on where it was.
        """
        notes, parts = (
            self.work.notes(made.name),
            self.stream.blocks(self.tiling, CHECK_MAX_SAMPLES),
        )
        names = ["-".join([stage, *(f"{s.start}.{s.stop}" for s in p)]) + ".json" for p in parts]
        left = []
        for part, name in zip(parts, names):
            note = read_note(notes, name)
            try:
                known = read(note["found"]) if note["of"] == made.version else None
            except NOT_A_NOTE:
                known = None
            if known is None:
                left.append((part, name))
            else:
                yield part, known
        n = len(parts)
        self.stream.progress(stage, n - len(left), n)
        every = engine.each(task, [part for part, _ in left])
        for done, ((part, name), found) in enumerate(zip(left, every), n - len(left) + 1):
            write_note(notes, name, {"of": made.version, "found": found})
            self.stream.progress(stage, done, n)
            yield part, read(found)


def join_checks(checks: dict[int, str]) -> str:
    """Return check sums by number as one text, in order."""
    return "".join(checks[i] for i in range(len(checks)))
