"""Archives that grow: samples put at the end of an axis of a model folder.

Tiles that are full stay as they are; those at the seam are coded again with what is new. How
readers see the old samples or all is said in `work_folder`.
"""

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from elmfield._array.channel_stats import ChannelStats
from elmfield._array.progress import reporter
from elmfield._array.running import capacity
from elmfield._array.running import memory_limit as limited
from elmfield._array.typing import Array, Floats, Progress
from elmfield.field import Field
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.tiles import Totals, sums_of
from elmfield.field.coordinates.labels import add_ticks, coordinates_out
from elmfield.fit.statistics import Probes, Slabs, Survey, blocks_of
from elmfield.io.files import StrPath
from elmfield.io.gridded import Gridded, axis_number
from elmfield.io.inputs import encoder_for, parse_input
from elmfield.io.model.metadata import AppendingRecord, staging_folder, write_metadata
from elmfield.io.model.sample_files import Overview, SamplePlan, level_of, overview_of
from elmfield.io.model.save import own_dtype
from elmfield.io.store.stores import ROOT, FolderStore
from elmfield.io.stream.fit_stream import Stream
from elmfield.io.stream.stream_coder import StreamCoder
from elmfield.io.stream.work_folder import GrowingModel, explain_writing, open_growing
from elmfield.samples import Slab, Source, source_of


def append(
    path: StrPath,
    values: Any,
    *,
    axis: int | str = 0,
    coords: Array | None = None,
    memory_limit: int | None = None,
    progress: Progress | bool = False,
) -> Field:
    """The field of a model folder with more samples at the end of one axis.

    Parameters
    ----------
    path : str or path
        A folder, ``name.elm.zarr``, that holds samples without loss and without gaps.
    values : array, DataArray, path, or iterator of arrays
        The samples to add, as for `elmfield.fit`: of the model's dtype, and of its shape on all
        axes but one. An iterator gives frames, without that axis, which are added as they come,
        some at a time.
    axis : int or str
        Which one, by number (channels do not count) or name.
    coords : array, optional
        Where they lie on that axis; a DataArray brings its own, and even axes go on evenly.
    memory_limit, progress : optional
        As for `elmfield.fit`.

    Returns
    -------
    Field
        What ``load(path)`` gives now: the field that a fit of all samples with the model's
        settings gives. Its offset stays, so values agree to rounding.

    Notes
    -----
    Only tiles at the seam are coded again. Where the least and the largest sample of the model are
    not on record its tiles are decoded once to find them; from then on they are.

    Readers see the model as it was or with the new samples, never anything between; of an iterator
    some frames at a time. If a call is cut short, the same call again goes on: samples that the
    first one has added already are recognised, at the place where it began, and not added twice. A
    call that came to its end is forgotten: the same samples once more are more samples.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> days = np.sin(np.arange(40.0)[:, None] / 5 + np.arange(20) / 7)
    >>> field = ef.fit(days[:30], ef.smooth(order=2), out="days.elm.zarr")
    >>> ef.append("days.elm.zarr", days[30:]).shape
    (40, 20)
    """
    frames, tell = isinstance(values, Iterator), reporter(progress)
    if frames and coords is not None:
        raise ValueError("`coords` cannot be told for an iterator of frames; stack some of them.")
    limit = nullcontext() if memory_limit is None else limited(memory_limit)
    with limit, open_growing(path) as model:
        k = axis_number(axis, model.field.domain.dims)
        if model.field.domain.periodic[k]:
            name = model.field.domain.dims[k]
            raise ValueError(f"axis {name!r} repeats; nothing can follow its end.")
        first, n = model.start(k), model.field.shape[k]
        left = n - first  # samples that a call which was cut short has added
        for some in _batches(values, model, k, left) if frames else [values]:
            joined = JoinedSource.of(model, some, k, coords)
            if left and (frames or joined.size == left) and joined.repeats(n - left):
                left -= joined.size
                continue
            if left:
                first, left = n, 0  # that was another call
            model = _add(joined, first, tell)
        return model.finish()


# --- the samples ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinedSource:
    """The samples of a model, and new ones after them on one axis: a source.

    Parameters
    ----------
    model : GrowingModel
        The model.
    new : Source
        The new samples.
    axis : int
        Where they follow, channels not counted.
    coords : array or None
        Where they lie on that axis, as the model counts, if a caller says so.
    labels : array or None
        The same as the caller says it: dates, or numbers.
    """

    model: GrowingModel
    new: Source
    axis: int
    coords: Floats | None = None
    labels: Array | None = None

    @classmethod
    def of(cls, model: GrowingModel, values: Any, k: int, coords: Array | None) -> "JoinedSource":
        """Join a model and what a caller adds to it; ValueError if that does not fit."""
        given = parse_input(values, channel_axis=model.field.model.channel_axis, lazily=True)
        found = cls(model=model, new=source_of(given.values), axis=k)
        _check_fits(model.field, found.new, k)
        numbers, labels = _new_coordinates(model.field, k, given, coords, found.size)
        return replace(found, coords=numbers, labels=labels)

    @property
    def place(self) -> int:
        """The axis of the source where they follow."""
        return self.model.place(self.axis)

    @property
    def size(self) -> int:
        """How many samples are new on the axis."""
        return int(self.new.shape[self.place])

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, channels included."""
        sizes = list(self.new.shape)
        sizes[self.place] += self.model.field.shape[self.axis]
        return tuple(sizes)

    @property
    def dtype(self) -> Any:
        """Of the samples."""
        return np.dtype(self.new.dtype)

    def read(self, slab: Slab = ()) -> Array:
        """Return a slab of both."""
        k, n = self.place, self.model.field.shape[self.axis]
        parts = []
        for read, first, size in ((self._read_old, 0, n), (self.new.read, n, self.size)):
            a, b = max(slab[k].start - first, 0), min(slab[k].stop - first, size)
            if a < b:
                parts.append(np.asarray(read((*slab[:k], slice(a, b), *slab[k + 1 :]))))
        return np.concatenate(parts, axis=k)

    def _read_old(self, slab: Slab) -> Array:
        """Return a slab of the model's samples, as the new ones are."""
        model = self.model.field.model
        own = tuple(s for j, s in enumerate(slab) if j != model.channel_axis)
        values = model.joined(self.model.boxes.read(own), axis=len(own))
        return model.channels_back(values).astype(self.dtype, copy=False)

    def slabs(self, source: Source) -> Slabs:
        """The samples of a source of the same axes, slab by slab."""
        return Slabs(source=source, channel_axis=self.model.field.model.channel_axis)

    def repeats(self, first: int) -> bool:
        """Whether the new samples are those that the model has from `first` on."""
        field, k, m = self.model.field, self.axis, self.size
        own, given = field.domain.axes[k].coords, self.coords
        there = None if own is None else own[first : first + m]
        if there is not None and given is not None and not np.array_equal(there, given):
            return False
        both, new = self.slabs(self), self.slabs(self.new)
        room = capacity(np.empty(0)) // len(field.model.offset)
        for slab in blocks_of(new.shape[:-1], self.model.tiles.tiling.tile[:-1], room):
            along = slice(first + slab[k].start, first + slab[k].stop)
            if not np.array_equal(both.raw((*slab[:k], along, *slab[k + 1 :])), new.raw(slab)):
                return False
        return True


def _batches(frames: Iterator[Any], model: GrowingModel, k: int, left: int) -> Iterator[Array]:
    """Frames that come one by one, as many at a time as some tiles are long, or memory allows.

    The first `left` of them not together with others.
    """
    field = model.field
    each = math.prod(n for j, n in enumerate(field.shape) if j != k) * len(field.model.offset)
    room = capacity(np.empty(0)) // max(1, each)
    step = max(1, min(room, 4 * model.tiles.tiling.tile[k]))
    while some := list(islice(frames, min(step, left or step))):
        left -= min(left, len(some))
        yield np.stack([np.asarray(f) for f in some], axis=model.place(k))


def _add(joined: JoinedSource, first: int, tell: Progress) -> GrowingModel:
    """Add samples to a model; the call that adds them began when it had `first`."""
    model, slabs, k = joined.model, joined.slabs(joined), joined.axis
    grown, encode = _grow(joined, slabs, *_find_limits(joined))
    stream = Stream(slabs=slabs, encode=encode, labels=grown.labels, progress=tell)
    folder = model.target / staging_folder(k, grown.shape[k])
    store, old, n = FolderStore(str(folder)), model.tiles.tiling, model.field.shape[k]
    plan = SamplePlan(field=grown, dtype=own_dtype(grown), tile=old.tile)
    coder = StreamCoder(plan=plan, stream=stream, places=lambda _: (store, None))
    tiling, text = coder.tiling, getattr(model.meta.samples, "checks", "")
    stay = [int(np.ravel_multi_index(old.place(i), tiling.counts)) for i in range(old.n_tiles)]
    checks = {i: text[8 * j : 8 * j + 8] for j, i in enumerate(stay)}
    new = [i for i in range(tiling.n_tiles) if tiling.place(i)[k] >= n // tiling.tile[k]]
    with explain_writing(model.target):
        try:
            checks |= {i: tile.check for i, tile in coder.code_tiles(new).items()}
            meta = coder.write_rest(store, checks, _overview(coder, model.boxes, k, n))
            meta = replace(meta, appending=AppendingRecord(axis=k, start=first))
            write_metadata(store, meta)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        os.replace(folder / ROOT, model.target / ROOT)  # from here on readers see new samples
        return GrowingModel.open(model.target)


def _overview(coder: StreamCoder, boxes: SampleBoxes, k: int, n: int) -> Overview | None:
    """Return the overview of all samples: means of whole boxes before the seam stay."""
    level = level_of(coder.tiling)
    if level is None:
        return None
    old = boxes.overview if boxes.overview is not None and boxes.overview[0] == level else None
    first = 0 if old is None else n >> level << level
    totals = Totals(coder.tiling, level)
    for block in coder.stream.blocks(coder.tiling):
        if block[k].stop > first:
            slab = (*block[:k], slice(max(block[k].start, first), block[k].stop), *block[k + 1 :])
            totals.add(slab, sums_of(coder.tiling, level, slab, coder.stream.slabs.read(slab)))
    means = overview_of(totals, coder.plan.kind)
    if old is not None:
        stay = (*(slice(None),) * k, slice(first >> level))
        means[1][stay] = old[1].read()[stay]
    return means


def _check_fits(field: Field, new: Source, k: int) -> None:
    """Raise unless samples fit to a model's on all axes but k, and in dtype."""
    wanted: list[Any] = list(field.shape)
    wanted[k], got = "any", list(new.shape)
    if field.model.channel_axis is not None:
        wanted.insert(field.model.channel_axis, field.model.n_channels)
    same = len(got) == len(wanted) and all(w in ("any", g) for w, g in zip(wanted, got))
    if not same or 0 in got:
        sizes = f"({', '.join(map(str, wanted))}); got {tuple(got)}"
        raise ValueError(f"`values` must have the model's shape but on one axis, {sizes}.")
    dtype, own = np.dtype(new.dtype).newbyteorder("=").name, field.model.input_dtype
    if dtype != own:
        raise ValueError(f"`values` must have the model's dtype, {own}; got {dtype}. Convert them.")


def _find_limits(joined: JoinedSource) -> tuple[float, float]:
    """Return the least and the largest sample, old and new."""
    known, tiles = joined.model.field.labels.limits, joined.model.tiles
    if known is None:
        lows, highs = zip(*((v.min(), v.max()) for v in map(tiles, range(tiles.tiling.n_tiles))))
        known = [float(min(lows)), float(max(highs))]
    new = joined.slabs(joined.new)
    found: ChannelStats = new.part(tuple(slice(0, n) for n in new.shape[:-1]))[2]
    if not found.count.all() or found.count.sum() < np.prod(new.shape):
        raise ValueError("`values` have gaps; samples with gaps cannot be added. Fill them first.")
    return min(known[0], float(found.low.min())), max(known[1], float(found.high.max()))


def _new_coordinates(
    field: Field, k: int, given: Gridded, coords: Array | None, m: int
) -> tuple[Floats | None, Array | None]:
    """Where m new samples lie on axis k, as the model counts and as a caller says; None if not."""
    axis = field.domain.axes[k]
    if axis.coords is None:
        return None, None
    if coords is None and axis.name in given.coords:
        coords = coordinates_out(given.coords[axis.name], given.labels.axis(axis.name))
    if coords is None:
        if axis.spacing is not None:
            raise ValueError(f"axis {axis.name!r} is not even; say where samples lie: coords=...")
        return None, None
    coords = np.asarray(coords)
    if len(coords) != m:
        raise ValueError(f"`coords` must have {m} entries, one per sample; got {len(coords)}.")
    return field.model.coordinates.numbers(k, coords), coords


def _grow(joined: JoinedSource, slabs: Slabs, low: float, high: float) -> tuple[Field, Any]:
    """Return the field of old and new samples, and what encodes it."""
    field, k = joined.model.field, joined.axis
    axes, known, name = field.domain.axes, field.labels.axes, field.domain.dims[k]
    coords = {a.name: a.coords for a in axes if a.coords is not None}
    if (own := coords.get(name)) is not None:
        even = axes[k].origin + axes[k].step * (axes[k].size + np.arange(joined.size))
        more = even if joined.coords is None else joined.coords
        coords[name] = every = np.concatenate([np.asarray(own, np.float64), more])
        about = field.labels.axis(name)
        labels, new = coordinates_out(own, about), joined.labels
        if new is not None and labels.dtype.kind in "iuMm" and labels.dtype == new.dtype:
            ticks = add_ticks(about, every, np.concatenate([labels, new]))
            known = {**known, name: ticks}
    labels = replace(field.labels, axes=known, limits=[low, high], source={})
    whole = Gridded(
        values=joined,
        dims=field.domain.dims,
        coords=coords,
        channel_axis=field.model.channel_axis,
        periods={a.name: a.period for a in axes if a.period is not None},
        labels=labels,
    )
    encode = encoder_for(whole, field.settings)
    C = slabs.shape[-1]
    count = np.full(C, np.prod(slabs.shape[:-1], dtype=np.int64))
    survey = Survey(
        probes=Probes(shape=slabs.shape, grids=()),
        ends=ChannelStats(np.full(C, low), np.full(C, high), np.zeros(C), count),
        n_missing=0,
        is_alike=True,
        looked=[],
        offset=np.asarray(field.model.offset),
        scale=np.asarray(field.model.scale),
    )
    grown = encode.from_source(survey, slabs)
    return Field(replace(grown.model, labels=labels)), encode
