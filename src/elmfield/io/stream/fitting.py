"""From a source to a model file, slab by slab: look at all, decide, code, put in place.

The first pass finds what must be known of all samples; the second codes them, tile by tile, and
writes each block as it is done. Error targets take a pass more for each attempt and each check.
What comes back is the lazily read field of the file: bit for bit what a fit in memory would save.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.backend import is_array, is_dask, to_numpy
from elmfield._array.checks import choice
from elmfield._array.memory import capacity
from elmfield._array.typing import Progress
from elmfield.field import Field
from elmfield.field.missing import WAYS
from elmfield.field.streamed import Slabs, Streamed
from elmfield.field.tiling import TILE, TOGETHER, Tiling
from elmfield.fit.encoder import Encoder, encoder, gap_order
from elmfield.fit.filling import Filled, filling, look_again
from elmfield.fit.survey import Looks, Part, Survey, blocks_of, surveyed
from elmfield.io.formats.registry import is_model
from elmfield.io.given import Given
from elmfield.io.lazy import mapped
from elmfield.io.model.blocks import put_array
from elmfield.io.model.describe import Plan, described
from elmfield.io.model.restore import load
from elmfield.io.model.store import put_arrays, put_root
from elmfield.io.stream.coding import HELD
from elmfield.io.stream.disk import DiskCoder, Listing
from elmfield.io.stream.engine import (
    WAVE,
    Engine,
    Here,
    Spread,
    check_chunks,
    n_dask_workers,
    shell_of,
)
from elmfield.io.stream.places import files_at
from elmfield.io.stream.spool import WORTH, Spool, own_chunks, spool_at, times_read, together
from elmfield.io.stream.work import Work, kept, work_at
from elmfield.partition import Partition
from elmfield.samples import Slab, Sliced, fills_whole, source_of, with_nan
from elmfield.settings import Settings


def fit_to(
    given: Given,
    settings: Settings | None,
    out: str | Path,
    *,
    mask: Any = None,
    partition: Partition | None = None,
    missing: str = "fill",
    engine: Engine | None = None,
    progress: Progress,
) -> Field:
    """The lazily read field of a model file at `out`, made of a source larger than memory.

    Parameters
    ----------
    given : Given
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
    if not is_model(out):
        raise ValueError(f"`out` must end in .elm or .elm.zarr, as models do; got {str(out)!r}.")
    values = given.values
    if is_dask(values):
        check_chunks(values)
    encode = encoder(
        values.shape,
        settings,
        channel_axis=given.channel_axis,
        dims=given.dims,
        coords=given.coords,
        periodic=given.periodic,
        partition=partition,
    )
    check_can_stream(encode.settings)
    choice("missing", missing, WAYS)
    work = work_at(out)
    stream = Stream.of(values, encode, mask, given.attributes, engine, progress)
    stream = replace(stream, missing=missing)
    with kept(work):
        return stream.into(work)


def check_can_stream(settings: Settings) -> None:
    """Raise if some settings have to see all samples at once."""
    if settings.denoise is not False:
        raise ValueError(
            "`denoise` has to see the whole array, and cannot be asked for together with `out`. "
            "Denoise windows of it that fit in memory."
        )
    target = settings.target
    if target is not None and not target.is_coded:
        raise ValueError(
            f"`{target.kind}` has to see all coefficients at once, and cannot be asked for "
            "together with `out`. Ask for psnr, max_error, bits or bytes."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Stream:
    """A source on its way into a file.

    Parameters
    ----------
    slabs : Slabs
        Its samples.
    sent : Slabs
        What workers are sent of it.
    encode : Encoder
        What makes a field of it.
    attributes : mapping
        What it says about itself.
    engine : Engine
        Who does the work.
    progress : callable
        Told (stage, done, total).
    missing : {"nan", "fill"}
        What the field answers where samples were missing.
    """

    slabs: Slabs
    sent: Slabs
    encode: Encoder
    attributes: Mapping[str, Any]
    engine: Engine
    progress: Progress
    missing: str = "fill"

    @classmethod
    def of(
        cls,
        values: Any,
        encode: Encoder,
        mask: Any,
        attributes: Mapping[str, Any],
        engine: Engine | None,
        progress: Progress,
    ) -> "Stream":
        """A source, and who works on it."""
        if isinstance(values, np.memmap) and values.base is None:
            values = mapped(values)
        if not is_dask(values) and is_array(values):
            values = to_numpy(with_nan(values))
        source = Sliced(values) if is_dask(values) else source_of(values)
        if is_dask(values) and is_dask(mask):
            raise ValueError(
                "`mask` cannot be a Dask array; mark what is missing in a Dask array of samples "
                "with NaN: dask.array.where(mask, numpy.nan, array)."
            )
        about: dict[str, Any] = {
            "channel_axis": encode.channel_axis,
            "mask": None if mask is None else source_of(mask),
        }
        slabs = sent = Slabs(source=source, **about)
        if is_dask(values) and engine is None:
            engine = Spread(
                array=lambda slab: values[slabs.with_channels(slab)], n_workers=n_dask_workers()
            )
            sent = Slabs(source=shell_of(source), **about)
        return cls(
            slabs=slabs,
            sent=sent,
            encode=encode,
            attributes=attributes,
            engine=Here() if engine is None else engine,
            progress=progress,
        )

    # --- the two passes ------------------------------------------------------------------------

    def into(self, work: Work) -> Field:
        """The field of the model file, once it is in place."""
        stream, survey = self._surveyed(work)
        return stream._made(survey, work)

    def _made(self, survey: Survey, work: Work) -> Field:
        """The same, once all samples were seen."""
        filled = None
        whole = fills_whole(self.slabs.dtype, survey.ends.data_range)
        slabs = replace(self.slabs, is_exact=survey.n_missing == 0 or whole)
        if survey.n_missing:
            filled = replace(self, slabs=slabs).filled(survey, work)
            look_again(survey, filled)
        boxes = Streamed(slabs=slabs, offset=survey.offset, scale=survey.scale)
        field = self.encode.awaiting(
            survey, boxes, input_dtype=slabs.dtype, is_complex=slabs.is_complex
        )
        about = {} if self.missing == "fill" else {"missing": self.missing}
        field = replace(field, attributes={**self.attributes, **about})
        if field.blended.made_of is None:
            return self._projected(field, survey, work)
        stream = replace(self, slabs=slabs, sent=replace(self.sent, is_exact=slabs.is_exact))
        if survey.n_missing and self.sent is not self.slabs:
            # No copy of a Dask array: windows, which overlap, are cut here and computed by Dask.
            stream = replace(stream, sent=slabs, engine=Here())
        coder = DiskCoder(
            field=field,
            stream=stream,
            work=work,
            top=float(np.abs([survey.ends.low, survey.ends.high]).max()),
            filled=filled,
        )
        work.begin(coder.plan)
        made = coder.made()
        work.finish(made.name, made.keys)
        return load(work.target)

    def _projected(self, field: Field, survey: Survey, work: Work) -> Field:
        """The field of a file of coefficients: the paper's, of a dense layer, of merged regions."""
        target = field.settings.target  # type: ignore[attr-defined]
        if survey.n_missing or target is not None:
            what = "with gaps" if survey.n_missing else f"with `{target.kind}`"
            raise ValueError(
                f"fields that keep coefficients, not samples, cannot be fitted in parts {what}. "
                "Use smooth() on its own regular cells, or fit windows that fit in memory."
            )
        work.begin({"coefficients": repr(field.settings)})
        files_at(work.model("as")).drop()
        dtype = str(field.coefficient_dtype)
        files = files_at(work.model("as"))
        first, second = Listing(files), Listing(files)
        plan = described(field, dtype).plan
        assert isinstance(plan, Plan)

        def told(_stage: str, done: int, total: int) -> None:
            self.progress("fit", done, total)

        sums = put_array(
            second, "coefficients", plan.numbers(dtype, told), plan.n_values, dtype, True
        )
        residual = np.zeros(field.partition.n_regions)
        with np.errstate(over="ignore"):  # infinite where float64 has no squares
            for g in field.blended.groups:
                left = np.sqrt(g.coefficients.left) * survey.scale  # type: ignore[attr-defined]
                residual[g.regions] = np.square(left).sum(axis=1)
        told_of = described(replace(field, residual=residual), dtype)
        checks = {**put_arrays(first, told_of.arrays, True), "coefficients": sums}
        put_root(second, {**told_of.meta, "checks": checks})
        work.finish("as", first.keys + second.keys)
        return load(work.target)

    def filled(self, survey: Survey, work: Work) -> Filled:
        """How gaps are filled."""
        settings = self.encode.settings
        self.progress("fill", 0, 1)
        found = filling(
            self.slabs,
            survey,
            order=gap_order(settings, self.missing),
            periodic=self.encode.domain.periodic,
            clip=settings.clip,
            folder=work.levels(),
            tell=lambda: None,
        )
        self.progress("fill", 1, 1)
        return found

    def _surveyed(self, work: Work) -> tuple["Stream", Survey]:
        """What all samples tell; and the stream, now of their copy, if they were copied."""
        shape, settings = self.slabs.shape, self.encode.settings
        looks = Looks.of(settings, shape)
        itemsize = np.dtype(self.slabs.kind).itemsize
        blocks = self.blocks(Tiling.by_bytes((0,) * len(shape), shape, itemsize))
        spool = self._spool(work, blocks)
        if spool is not None:
            blocks = [self.slabs.without_channels(slab) for slab in spool.slabs]
        task = _Surveying(looks, self.sent, self._room, spool)
        whole = self.slabs.with_channels
        known = [] if spool is None else [b for b in blocks if spool.has(whole(b))]
        new = [b for b in blocks if b not in known] if known else blocks

        def parts() -> Iterator[Part]:
            every = chain(self.engine.reading().each(task, known), self.engine.each(task, new))
            for done, some in enumerate(every):
                self.progress("survey", done + 1, len(blocks))
                yield from some

        survey = surveyed(parts(), looks, floating=self.slabs.floating, centred=settings.centred)
        if spool is None:
            return self, survey
        copied = replace(self.slabs, source=spool)
        return replace(self, slabs=copied, sent=copied, engine=self.engine.reading()), survey

    def _spool(self, work: Work, blocks: list[Slab]) -> Spool | None:
        """Where samples are copied to, if they are dear to read more than once."""
        source, k = self.slabs.source, self.slabs.channel_axis
        if not isinstance(source, Sliced) or not (work.is_shared or self.engine.is_here):
            return None
        chunks = own_chunks(source.container)
        if chunks is None:
            return None
        if k is not None:
            chunks[k] = [sum(chunks[k])]
        if self.sent is self.slabs:  # workers are not handed samples: they would read
            own = [self.slabs.with_channels(slab) for slab in blocks]
            if times_read(own, chunks) < WORTH:
                return None
        room = self._room * (1 if k is None else source.shape[k])
        return spool_at(work.levels(), source.container, together(chunks, room))

    @property
    def _room(self) -> int:
        """Samples of a block, about, all channels of one counted once."""
        each = HELD * np.dtype(self.slabs.floating).itemsize * self.slabs.shape[-1]
        n, shape = self.engine.n_workers, self.slabs.shape
        room = 8 * capacity(np.empty(0)) // (each * n)
        if n == 1:
            return room
        # Some blocks for each worker, so that all end together; none too small to be coded fast.
        least = TOGETHER * TILE // (np.dtype(self.slabs.kind).itemsize * shape[-1])
        return min(room, max(1, least, math.prod(shape[:-1]) // (WAVE * n)))

    def blocks(self, tiling: Tiling) -> list[Slab]:
        """The array in slabs of whole tiles, as large as memory allows."""
        return blocks_of(self.slabs.shape[:-1], tiling.tile[:-1], self._room)


@dataclass(frozen=True, eq=False)
class _Surveying:
    """What is done to each block in the first pass."""

    looks: Looks
    slabs: Slabs
    room: int
    spool: Spool | None

    def __call__(self, slab: Slab, values: Any = None) -> list[Part]:
        if self.spool is None:
            return [self.looks.part(self.slabs, slab, values)]
        where = self.slabs.with_channels(slab)
        found = self.spool.known(where)
        if found is None:
            found = self.slabs.read(slab) if values is None else np.asarray(values)
            self.spool.put(where, found)
        parts = []
        for part in blocks_of([s.stop - s.start for s in slab], [1] * len(slab), self.room):
            own = tuple(slice(s.start + p.start, s.start + p.stop) for s, p in zip(slab, part))
            parts.append(self.looks.part(self.slabs, own, found[self.slabs.with_channels(part)]))
        return parts
