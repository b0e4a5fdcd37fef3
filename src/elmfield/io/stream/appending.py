"""Archives that grow: samples put at the end of an axis of a model folder.

Tiles that are full stay as they are; those at the seam are coded again with what is new. What
changes is made beside the model and then moved in, the metadata last; moves that were cut short are
finished by the next call.
"""

import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.ends import Ends
from elmfield._array.memory import capacity
from elmfield._array.memory import memory_limit as limited
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Progress
from elmfield.field import Field
from elmfield.field.streamed import Slabs, Streamed
from elmfield.field.tiles import Coded
from elmfield.field.tiling import Tiling
from elmfield.fit.encoder import encoder
from elmfield.fit.survey import Looks, Survey
from elmfield.io.files import StrPath, path_of
from elmfield.io.given import Given, given_as
from elmfield.io.gridded import axis_number
from elmfield.io.model.entries import is_url, on_disk, open_entries
from elmfield.io.model.overview import Means, Totals, level_of, sums_of
from elmfield.io.model.restore import load, metadata
from elmfield.io.model.store import FOLDER
from elmfield.io.stream.coding import Coding
from elmfield.io.stream.disk import DiskCoder
from elmfield.io.stream.engine import Here
from elmfield.io.stream.fitting import Stream
from elmfield.io.stream.places import files_at
from elmfield.io.stream.work import LocalWork
from elmfield.samples import Slab, Source, source_of

MOVES = "moves.json"


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

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> days = np.sin(np.arange(40.0)[:, None] / 5 + np.arange(20) / 7)
    >>> field = ef.fit(days[:30], ef.smooth(order=2), out="days.elm.zarr")
    >>> ef.append("days.elm.zarr", days[30:]).shape
    (40, 20)
    """
    if isinstance(values, Iterator):
        return _frames(path, values, axis, coords, memory_limit, progress)
    local, tell = on_disk(path), reporter(progress)
    if is_url(local):
        raise ValueError(f"samples can be added to a folder on a disk; got {path!r}. Copy it here.")
    target = path_of(local)
    if not target.name.endswith(FOLDER):
        raise ValueError(
            f"samples can be added to a folder, name.elm.zarr; got {target.name!r}. Save the field "
            "as one: save(load(path), 'name.elm.zarr')."
        )
    work = LocalWork(target)
    work.hold()
    try:
        finish_moves(work)
        with limited(memory_limit):
            _added(work, load(target), values, axis, coords, tell)
    finally:
        work.close()
    shutil.rmtree(work.root, ignore_errors=True)
    return load(target)


def _frames(
    path: StrPath,
    frames: Iterator[Any],
    axis: int | str,
    coords: Array | None,
    memory_limit: int | None,
    progress: Progress | bool,
) -> Field:
    """Add frames that come one by one: as many at a time as a tile is long, or memory has room."""
    if coords is not None:
        raise ValueError("`coords` cannot be told for an iterator of frames; stack some of them.")
    field = load(on_disk(path))
    coded = _coded(field, Path(path))
    k = axis_number(axis, field.domain.dims)
    c = field.channel_axis
    place = k if c is None or k < c else k + 1
    most = math.prod(n for j, n in enumerate(field.shape) if j != k) * len(field.offset)
    with limited(memory_limit):
        room = capacity(np.empty(0)) // max(1, most)
    step = max(1, min(room, 4 * coded.tiling.tile[k]))
    while some := list(islice(frames, step)):
        field = append(
            path,
            np.stack([np.asarray(f) for f in some], axis=place),
            axis=k,
            memory_limit=memory_limit,
            progress=progress,
        )
    return field


def _added(
    work: LocalWork,
    field: Field,
    values: Any,
    axis: int | str,
    coords: Array | None,
    tell: Progress,
) -> None:
    """Add samples to the model of a work folder."""
    coded = _coded(field, work.target)
    k = axis_number(axis, field.domain.dims)
    if field.domain.periodic[k]:
        raise ValueError(f"axis {field.domain.dims[k]!r} repeats; nothing can follow its end.")
    given = given_as(values, field.channel_axis, None, None, None, None, True)
    new = source_of(given.values)
    _check(field, new, k)
    old = Slabs(source=new, channel_axis=field.channel_axis)
    joined = Joined(field=field, coded=coded, new=new, axis=k)
    slabs = Slabs(source=joined, channel_axis=field.channel_axis)
    low, high = _limits(field, coded, old)
    grown = _grown(field, slabs, low, high, _coordinates(field, k, given, coords, new), k)
    stream = Stream(
        slabs=slabs, sent=slabs, encode=grown[1], attributes=grown[0].attributes, engine=Here(),
        progress=tell,
    )  # fmt: skip
    coder = DiskCoder(
        field=grown[0], stream=stream, work=work, top=max(abs(low), abs(high)),
        tile=coded.tiling.tile,
    )  # fmt: skip
    _put(work, coder, coded, field, k, tell)


def _put(
    work: LocalWork, coder: DiskCoder, coded: Coded, field: Field, k: int, tell: Progress
) -> None:
    """Code what is new, and move it into the model."""
    tiling, plan = coder.tiling, coder.sample_plan
    t, n = tiling.tile[k], field.shape[k]
    for root in (work.model("new"), work.done("new")):
        files_at(root).drop()
    coding = Coding(
        slabs=coder.stream.slabs, tiling=tiling, kind=plan.kind, has_channels=plan.has_channels,
        asked=(), model=work.model("new"), done=work.done("new"),
    )  # fmt: skip
    checks = _old_checks(work.target, coded.tiling, tiling)
    blocks = [b for b in coder.blocks if b[k].stop > n // t * t]
    for done, block in enumerate(blocks):
        part = tuple(
            slice(max(s.start, n // t * t), s.stop) if j == k else s for j, s in enumerate(block)
        )
        checks |= coding(part)[0]
        tell("fit", done + 1, len(blocks))
    every = "".join(checks[i] for i in range(tiling.n_tiles))
    made = coder.described("new", (every, ""), False, _overview(coder, coded, k, n))
    keys = files_at(work.model("new")).keys()
    keys = [key for key in keys if key != "zarr.json"] + ["zarr.json"]
    assert made.keys
    files_at(work.root).put(MOVES, json.dumps(keys).encode())
    finish_moves(work)


def _overview(coder: DiskCoder, coded: Coded, k: int, n: int) -> Means | None:
    """The overview of all samples: means of whole boxes before the seam stay."""
    level, slabs = level_of(coder.tiling), coder.stream.slabs
    if level is None:
        return None
    kind = coder.sample_plan.kind
    first = 0
    if coded.overview is not None and coded.overview[0] == level:
        first = n >> level << level
    totals = Totals(coder.tiling, level)
    for block in coder.blocks:
        if block[k].stop > first:
            part = tuple(
                slice(max(s.start, first), s.stop) if j == k else s for j, s in enumerate(block)
            )
            totals.add(part, sums_of(coder.tiling, level, part, slabs.part(part)[0].astype(kind)))
    means = totals.means(kind)
    if first:
        assert coded.overview is not None
        stay = tuple(slice(first >> level) if j == k else slice(None) for j in range(k + 1))
        means.values[stay] = coded.overview[1].whole()[stay]
    return means


def finish_moves(work: LocalWork) -> None:
    """Move what is ready into a model, or what is left of it after a crash."""
    note = work.root / MOVES
    if not note.exists():
        return
    for key in json.loads(note.read_text()):
        ready, place = Path(work.model("new"), key), work.target / key
        if ready.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(ready, place)
    note.unlink()


def _old_checks(target: Path, old: Tiling, new: Tiling) -> dict[int, str]:
    """Check sums of the tiles that stay, under their new numbers."""
    text = str(metadata(open_entries(target))["samples"]["checks"])
    return {
        int(np.ravel_multi_index(old.place(i), new.counts)): text[8 * i : 8 * i + 8]
        for i in range(old.n_tiles)
    }


def _coded(field: Field, path: Path) -> Coded:
    """The samples of a model to which others can be added; else an error."""
    boxes = field.blended.made_of
    coded = None if boxes is None else boxes.coded
    why = None
    if coded is None:
        why = "holds coefficients, not samples"
    elif coded.is_lossy or not coded.is_raw:
        why = "was coded with loss, for all its samples together"
    elif coded.missing is not None:
        why = "has gaps, which more samples would fill otherwise"
    elif tuple(coded.tiling.high[:-1]) != field.shape or any(coded.tiling.low):
        why = "is part of a larger one"
    if why is not None or coded is None:
        raise ValueError(f"{path.name} {why}; nothing can be added to it. Fit all samples again.")
    return coded


def _check(field: Field, new: Source, k: int) -> None:
    """Raise unless samples fit to a model's on all axes but k, and in dtype."""
    wanted: list[Any] = list(field.shape)
    wanted[k] = "any"
    got = list(new.shape)
    if field.channel_axis is not None:
        wanted.insert(field.channel_axis, field.n_channels)
    same = len(got) == len(wanted) and all(w in ("any", g) for w, g in zip(wanted, got))
    if not same or 0 in got:
        raise ValueError(
            f"`values` must have the model's shape but on one axis, "
            f"({', '.join(map(str, wanted))}); got {tuple(got)}."
        )
    dtype = np.dtype(new.dtype).newbyteorder("=").name
    if dtype != field.input_dtype:
        raise ValueError(
            f"`values` must have the model's dtype, {field.input_dtype}; got {dtype}. Convert them."
        )


def _limits(field: Field, coded: Coded, new: Slabs) -> tuple[float, float]:
    """The least and the largest sample, old and new."""
    known = field.attributes.get("limits")
    if known is None:
        ends = [
            (float(v.min()), float(v.max()))
            for v in (coded.decoded(i) for i in range(coded.tiling.n_tiles))
        ]
        known = [min(a for a, _ in ends), max(b for _, b in ends)]
    found: Ends = new.part(tuple(slice(0, n) for n in new.shape[:-1]))[2]
    if not found.count.all() or found.count.sum() < np.prod(new.shape):
        raise ValueError("`values` have gaps; samples with gaps cannot be added. Fill them first.")
    return min(known[0], float(found.low.min())), max(known[1], float(found.high.max()))


def _coordinates(
    field: Field, k: int, given: Given, coords: Array | None, new: Source
) -> list[Floats | None]:
    """Coordinates of all axes, the longer one's with those of the new samples."""
    axes, about = field.domain.axes, field.attributes.get("axes", {})
    every: list[Floats | None] = [a.coords for a in axes]
    own = axes[k].coords
    place = k if field.channel_axis is None or k < field.channel_axis else k + 1
    m = int(new.shape[place])
    if own is None:
        return every
    if coords is None and isinstance(given.coords, dict):
        coords = given.coords.get(axes[k].name)
        mine = about.get(axes[k].name, {}).get("epoch")
        theirs = given.attributes.get("axes", {}).get(axes[k].name, {}).get("epoch")
        if coords is not None and mine is not None and theirs is not None:
            coords = coords + (theirs - mine) / np.timedelta64(1, "s")
    if coords is None:
        if axes[k].knots is not None:
            raise ValueError(
                f"axis {axes[k].name!r} is not even; say where the new samples lie: coords=..."
            )
        coords = axes[k].origin + axes[k].step * (axes[k].size + np.arange(m))
    if len(coords) != m:
        raise ValueError(
            f"`coords` must have one entry for each of {m} samples; got {len(coords)}."
        )
    every[k] = np.concatenate([np.asarray(own, np.float64), np.asarray(coords, np.float64)])
    return every


def _grown(
    field: Field, slabs: Slabs, low: float, high: float, coords: list[Floats | None], k: int
) -> tuple[Field, Any]:
    """The field of old and new samples, and what encodes it."""
    axes = field.domain.axes
    encode = encoder(
        slabs.source.shape,
        field.settings,  # type: ignore[arg-type]
        channel_axis=field.channel_axis,
        dims=field.domain.dims,
        coords=coords,
        periodic={a.name: a.period for a in axes if a.period is not None},
    )
    C = slabs.shape[-1]
    count = np.full(C, np.prod(slabs.shape[:-1], dtype=np.int64))
    survey = Survey(
        looks=Looks(shape=slabs.shape, grids=()),
        ends=Ends(np.full(C, low), np.full(C, high), np.zeros(C), count),
        n_missing=0,
        is_alike=True,
        looked=[],
        few=np.empty((0, C)),
        offset=np.asarray(field.offset),
        scale=np.asarray(field.scale),
    )
    boxes = Streamed(slabs=slabs, offset=survey.offset, scale=survey.scale)
    grown = encode.awaiting(
        survey, boxes, input_dtype=field.input_dtype, is_complex=field.is_complex
    )
    attributes = {key: v for key, v in field.attributes.items() if key != "source"}
    return replace(grown, attributes={**attributes, "limits": [low, high]}), encode


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined:
    """The samples of a model, and others after them on one axis.

    Parameters
    ----------
    field : Field
        Of the model.
    coded : Coded
        Its samples.
    new : Source
        The others.
    axis : int
        Where they follow, channels not counted.
    """

    field: Field
    coded: Coded
    new: Source
    axis: int

    @property
    def _place(self) -> int:
        """Which axis of the arrays that is."""
        c = self.field.channel_axis
        return self.axis if c is None or self.axis < c else self.axis + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, channels included."""
        sizes = list(self.new.shape)
        sizes[self._place] += self.field.shape[self.axis]
        return tuple(sizes)

    @property
    def dtype(self) -> Any:
        """Of the samples."""
        return np.dtype(self.new.dtype)

    def read(self, slab: Slab = ()) -> Array:
        """A slab of both."""
        n, k, c = self.field.shape[self.axis], self._place, self.field.channel_axis
        parts = []
        if slab[k].start < n:
            own = [*slab[:k], slice(slab[k].start, min(slab[k].stop, n)), *slab[k + 1 :]]
            values = self.coded.kept(tuple(s for j, s in enumerate(own) if j != c))
            half = values.shape[-1] // 2
            if self.field.is_complex:
                values = values[..., :half] + 1j * values[..., half:]
            values = values[..., 0] if c is None else np.moveaxis(values, -1, c)
            parts.append(values.astype(self.dtype, copy=False))
        if slab[k].stop > n:
            rest = [*slab[:k], slice(max(slab[k].start, n) - n, slab[k].stop - n), *slab[k + 1 :]]
            parts.append(np.asarray(self.new.read(tuple(rest))))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=k)
