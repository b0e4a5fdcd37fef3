"""From a source to a model file, slab by slab: look at all, decide, code, put in place.

The first pass finds what must be known of all samples; the second codes them, tile by tile, and
writes each block as it is done. With an error target the tiles of a block are coded in two or three
passes, each at the step that what came out before suggests.
What comes back is the lazily read field of the file: bit for bit what a fit in memory would save.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.backend import is_array, is_dask, to_numpy
from elmfield._array.checks import USUAL_EFFORT, choice
from elmfield._array.running import capacity
from elmfield._array.typing import Array, Integers, Progress
from elmfield.field import Field, FromSamples, Group
from elmfield.field.coefficients.tiles import TILE_BYTES, TILES_PER_BATCH, Tiling
from elmfield.field.coordinates.labels import Labels
from elmfield.field.coordinates.output_positions import WAYS
from elmfield.fit.encoder import Encoder, gap_order
from elmfield.fit.gaps.fill import fill_slabs
from elmfield.fit.statistics import Part, Probes, Slabs, Survey, blocks_of, combine_parts
from elmfield.io.files import check_model_name
from elmfield.io.formats.arrays import Lazy, lazy_memmap
from elmfield.io.gridded import Gridded
from elmfield.io.inputs import encoder_for
from elmfield.io.model.coefficient_files import CoefficientPlan
from elmfield.io.model.load import load
from elmfield.io.model.metadata import write_metadata
from elmfield.io.model.sample_files import SamplePlan
from elmfield.io.model.save import describe, own_dtype
from elmfield.io.stream import workers
from elmfield.io.stream.stream_coder import NUMBERS_PER_SAMPLE, StreamCoder
from elmfield.io.stream.work_folder import Work
from elmfield.io.stream.workers import HERE, Engine, Spool
from elmfield.partition import Partition
from elmfield.samples import EXACT_WHOLE, Slab, Sliced, fills_whole, source_of, with_nan
from elmfield.settings import Settings


def fit_to(
    given: Gridded,
    settings: Settings | None,
    out: str | Path,
    *,
    mask: Any = None,
    partition: Partition | None = None,
    missing: str = "fill",
    engine: Engine | None = None,
    progress: Progress,
) -> Field:
    """Fit a source larger than memory into a model file; return its field, read lazily.

    Parameters
    ----------
    given : Gridded
        Anything with a shape, a dtype and slices, and what is known about it.
    settings : Settings
        What to do with it.
    out : path
        The model file or folder.
    mask : source, optional
        True where a sample is missing.
    partition : Partition, optional
        Use these regions instead of the settings' own.
    missing : {"nan", "fill"}
        What the field answers where samples were missing; see `elmfield.fit`.
    engine : Engine, optional
        Who does the work; Dask for Dask arrays, else this process.
    progress : callable
        Told (stage, done, total).
    """
    check_model_name("out", out)
    values = given.values
    if isinstance(values, (list, tuple)):
        values = with_nan(values)
        given = replace(given, values=values)
    if is_dask(values) and any(math.isnan(n) for n in values.shape):
        advice = "Call array.compute_chunk_sizes() first."
        raise ValueError(f"a Dask array must know its shape; got {values.shape}. {advice}")
    encode = encoder_for(given, settings, partition)
    target = encode.settings.target
    if encode.settings.denoise is not False:
        raise ValueError("`denoise` has to see the whole array, and cannot go together with `out`.")
    if target is not None and not target.is_coded:
        raise ValueError(
            f"`{target.kind}` has to see all coefficients at once, and cannot be asked for "
            "together with `out`. Ask for psnr, max_error, bits or bytes."
        )
    choice("missing", missing, WAYS)
    work = Work(out)
    if isinstance(values, np.memmap) and values.base is None:
        values = lazy_memmap(values)
    if is_array(values):
        values = to_numpy(with_nan(values))
    source = source_of(values)
    if is_dask(values) and is_dask(mask):
        raise ValueError(
            "`mask` cannot be a Dask array; mark what is missing in a Dask array of samples "
            "with NaN: dask.array.where(mask, numpy.nan, array)."
        )
    gaps = None if mask is None else source_of(mask)
    slabs = Slabs(source=source, channel_axis=encode.channel_axis, mask=gaps)
    if is_dask(values) and engine is None:
        n = workers.n_dask_workers()
        engine = Engine(n_workers=n, array=lambda slab: values[slabs.with_channels(slab)])
    about: dict[str, Any] = {"encode": encode, "labels": replace(given.labels, missing=missing)}
    stream = Stream(slabs=slabs, engine=engine or HERE, progress=progress, **about)
    with work:
        stream, survey = stream.survey(work)
        return stream.write(survey, work)


@dataclass(frozen=True, eq=False, kw_only=True)
class Stream:
    """A source on its way into a file.

    Parameters
    ----------
    slabs : Slabs
        Its samples.
    encode : Encoder
        What makes a field of it.
    labels : Labels
        What it says about itself.
    progress : callable
        Told (stage, done, total).
    engine : Engine
        Who does the work.
    """

    slabs: Slabs
    encode: Encoder
    labels: Labels
    progress: Progress
    engine: Engine = HERE

    @property
    def sent(self) -> Slabs:
        """What workers are sent of the samples: not those that Dask computes with the work."""
        source = self.slabs.source
        if self.engine.array is None:
            return self.slabs
        return replace(self.slabs, source=Sliced(Lazy(_refuse, source.shape, source.dtype)))

    # --- the two passes ------------------------------------------------------------------------

    def write(self, survey: Survey, work: Work) -> Field:
        """Write the model once all samples were looked at; return its field."""
        filled = None
        whole = fills_whole(self.slabs.dtype, survey.ends.data_range)
        top = float(np.abs([survey.ends.low, survey.ends.high]).max())
        # Whole numbers beyond those of float64 cannot be coded with loss as such.
        target = self.encode.settings.target
        floats = target is not None and top > EXACT_WHOLE
        is_exact = (survey.n_missing == 0 or whole) and not floats
        slabs = replace(self.slabs, is_exact=is_exact)
        if survey.n_missing:
            settings = self.encode.settings
            self.progress("fill", 0, 1)
            filled = fill_slabs(
                slabs,
                survey,
                order=gap_order(settings, self.labels.missing),
                periodic=self.encode.domain.periodic,
                clip=settings.clip,
                folder=work.levels,
                spacings=self.encode.domain.spacings,
            )
            self.progress("fill", 1, 1)
            filled.update(survey)
        field = self.encode.from_source(survey, slabs)
        field = Field(replace(field.model, labels=self.labels))
        if field.model.blended.source_samples is None:
            return self._write_coefficients(field, survey, work)
        stream = replace(self, slabs=slabs)
        if survey.n_missing and self.engine.array is not None:
            # No copy of a Dask array: windows, which overlap, are cut here and computed by Dask.
            stream = replace(stream, engine=HERE)
        coder = StreamCoder(
            plan=SamplePlan(field=field, dtype=own_dtype(field)),
            stream=stream,
            places=lambda name: (work.model(name), work.notes(name)),
            filled=filled,
            top=top,
            n_missing=survey.n_missing,
            effort=USUAL_EFFORT if target is None else target.effort,
        )
        work.begin(coder.fingerprint)
        name, meta = coder.put_together(coder.make())
        write_metadata(work.model(name), meta)
        work.finish(name)
        return load(work.target)

    def _write_coefficients(self, field: Field, survey: Survey, work: Work) -> Field:
        """Write a model of coefficients: the paper's, of a dense layer, of merged regions."""
        target = self.encode.settings.target
        if survey.n_missing or target is not None:
            what = "with gaps" if target is None or survey.n_missing else f"with `{target.kind}`"
            raise ValueError(
                f"fields that keep coefficients, not samples, cannot be fitted in parts {what}. "
                "Use smooth() on its own regular cells, or fit windows that fit in memory."
            )
        work.begin({"coefficients": repr(field.settings)})
        store, dtype = work.model("as"), own_dtype(field)
        store.clear()
        residual = np.zeros(field.partition.n_regions)

        def project(group: Group, rows: Integers) -> Array:
            assert isinstance(group.coefficients, FromSamples)
            c, left = group.coefficients.project(rows)
            with np.errstate(over="ignore"):  # infinite where float64 has no squares
                residual[group.regions[rows]] = np.square(np.sqrt(left) * survey.scale).sum(axis=1)
            return c.reshape(-1)

        plan, meta = CoefficientPlan(field, dtype, project), describe(field, dtype).meta
        meta = plan.write(store, meta, True, lambda _, *done: self.progress("fit", *done))
        done = Field(replace(field.model, residual=residual))
        rest = describe(done, dtype).write_arrays(store, True)
        checks = {**rest.checks, **meta.checks}
        write_metadata(store, replace(rest, n_coefficients=meta.n_coefficients, checks=checks))
        work.finish("as")
        return load(work.target)

    def survey(self, work: Work) -> tuple["Stream", Survey]:
        """Look at all samples; return the stream, of a copy if one was made, and a survey."""
        shape, settings = self.slabs.shape, self.encode.settings
        probes = Probes(shape=shape, grids=settings.probe_grids(shape))
        itemsize = np.dtype(self.slabs.kind).itemsize
        blocks = self.blocks(Tiling.by_bytes((0,) * len(shape), shape, itemsize))
        spool = self._spool(work, blocks)
        if spool is not None:
            blocks = [self.slabs.without_channels(slab) for slab in spool.slabs]
        task = partial(_survey_block, probes, self.sent, self._room, spool)
        whole = self.slabs.with_channels
        known = [] if spool is None else [b for b in blocks if spool.has(whole(b))]
        new = [b for b in blocks if b not in known] if known else blocks

        def parts() -> Iterator[Part]:
            every = chain(self.engine.reading().each(task, known), self.engine.each(task, new))
            for done, some in enumerate(every):
                self.progress("survey", done + 1, len(blocks))
                yield from some

        survey = combine_parts(
            parts(), probes, floating=self.slabs.floating, centred=settings.centred
        )
        if spool is None:
            return self, survey
        copied = replace(self.slabs, source=spool)
        return replace(self, slabs=copied, engine=self.engine.reading()), survey

    def _spool(self, work: Work, blocks: list[Slab]) -> Spool | None:
        """Return where samples are copied to, if they are slow to read more than once."""
        source, k = self.slabs.source, self.slabs.channel_axis
        if not isinstance(source, Sliced) or (work.is_remote and self.engine.n_workers is not None):
            return None
        chunks = workers.own_chunks(source.array)
        if chunks is None:
            return None
        if k is not None:
            chunks[k] = [sum(chunks[k])]
        if self.engine.array is None:  # workers are not handed samples: they would read
            own = [self.slabs.with_channels(slab) for slab in blocks]
            if workers.count_reads(own, chunks) < workers.MIN_READS_TO_COPY:
                return None
        room = self._room * (1 if k is None else source.shape[k])
        return workers.make_spool(work.levels, source.array, workers.merge_chunks(chunks, room))

    @property
    def _room(self) -> int:
        """Return the samples of a block, about, all channels of one counted once."""
        each = NUMBERS_PER_SAMPLE * np.dtype(self.slabs.floating).itemsize * self.slabs.shape[-1]
        n, shape = self.engine.n_workers or 1, self.slabs.shape
        room = 8 * capacity(np.empty(0)) // (each * n)
        if n == 1:
            return room
        # Some blocks for each worker, so that all end together; none too small to be coded fast.
        least = TILES_PER_BATCH * TILE_BYTES // (np.dtype(self.slabs.kind).itemsize * shape[-1])
        return min(room, max(1, least, math.prod(shape[:-1]) // (workers.BLOCKS_PER_WORKER * n)))

    def blocks(self, tiling: Tiling) -> list[Slab]:
        """Cut the array into slabs of whole tiles, as large as memory allows."""
        return blocks_of(self.slabs.shape[:-1], tiling.tile[:-1], self._room)


def _refuse(_slab: Slab) -> Array:
    """What workers would read if they were not handed the samples."""
    raise RuntimeError("the samples of a Dask array come with the work on them.")


def _survey_block(
    probes: Probes, slabs: Slabs, room: int, spool: Spool | None, slab: Slab, values: Any = None
) -> list[Part]:
    """What is done to each block in the first pass."""
    if spool is None:
        return [probes.part(slabs, slab, values)]
    where = slabs.with_channels(slab)
    if spool.has(where):
        found = spool.read(where)
    else:
        found = slabs.raw(slab) if values is None else np.asarray(values)
        spool.save(where, found)
    parts = []
    for part in blocks_of([s.stop - s.start for s in slab], [1] * len(slab), room):
        own = tuple(slice(s.start + p.start, s.start + p.stop) for s, p in zip(slab, part))
        parts.append(probes.part(slabs, own, found[slabs.with_channels(part)]))
    return parts
