"""The pipeline on one page: samples in, Field out."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmfield._array.backend import device as device_of
from elmfield._array.backend import is_array, is_on_host, namespace, to_device, to_numpy
from elmfield._array.memory import memory_limit as limited
from elmfield._array.memory import room, runs, with_less_memory
from elmfield._array.progress import silent
from elmfield._array.typing import Array, Progress
from elmfield.domain import Domain, make_domain
from elmfield.field import Blended, Field, Group, Samples, meet
from elmfield.fit.denoise import noise_level, shrink
from elmfield.fit.fill import FILL_ORDER, fill_missing
from elmfield.local.bases import DenseModes, Modes, ProductModes
from elmfield.partition import Partition, gather_boxes
from elmfield.samples import checked, data_range, range_of, standard_of, standardise, unmasked
from elmfield.settings import Settings, Smooth

CACHED = 1 << 21
"""Numbers a batch of product modes holds at most on a processor: what fits its cache."""


def fit(
    values: Array,
    settings: Settings | None = None,
    *,
    channel_axis: int | None = None,
    mask: Array | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    dims: Sequence[str] | None = None,
    periodic: Mapping[str | int, float] | Sequence[str | int] = (),
    partition: Partition | None = None,
    device: object = None,
    memory_limit: int | None = None,
    progress: Progress = silent,
) -> Field:
    """A Field through the samples of an array: one local model per region, blended.

    Parameters
    ----------
    values : array
        Samples on a grid: real, integer or complex; NaN marks a missing one.
    settings : optional
        ``smooth(...)``, the default, or ``paper(...)``.
    channel_axis : int, optional
        Which axis holds channels (colours, bands) rather than space; None if there is none.
    mask : array of bool, optional
        True where a sample is missing, as in `numpy.ma`; of the shape of `values`, or of that
        without the channel axis.
    dims, coords, periodic : optional
        Where the samples lie, what the axes are called, which of them repeat; see `make_domain`.
    partition : Partition, optional
        Use these regions instead of the settings' own.
    device : optional
        Move the array there first, for instance "cuda".
    memory_limit : int, optional
        Bytes that batches of intermediate results may take; see `elmfield.memory_limit`.
    progress : callable, optional
        Called with (stage, done, total).

    Returns
    -------
    Field
        In the array library and on the device of `values`. float32 in gives float32 coefficients,
        everything else float64.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> x = np.linspace(0, 1, 40)
    >>> field = ef.fit(np.sin(6 * x)[:, None] * np.cos(4 * x))
    >>> bool(abs(field([10.5, 20.25]) - np.sin(6 * 10.5 / 39) * np.cos(4 * 20.25 / 39)) < 1e-2)
    True
    """
    values, mask = unmasked(values, mask, channel_axis, None)
    if device is not None:
        values = to_device(values, device)
    encode = encoder(
        values.shape,
        settings,
        channel_axis=channel_axis,
        coords=coords,
        dims=dims,
        periodic=periodic,
        partition=partition,
    )
    with nullcontext() if memory_limit is None else limited(memory_limit):
        field: Field = encode(values, mask=mask, progress=progress)
    return field


def encoder(
    shape: Sequence[int],
    settings: Settings | None = None,
    *,
    channel_axis: int | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    dims: Sequence[str] | None = None,
    periodic: Mapping[str | int, float] | Sequence[str | int] = (),
    partition: Partition | None = None,
) -> "Encoder":
    """An Encoder for arrays of one shape: it keeps the factorised modes between calls.

    Parameters are those of :func:`fit`; `shape` includes the channel axis, if there is one.
    """
    if any(int(n) != n or n < 0 for n in shape):
        raise ValueError(f"`shape` must be whole numbers, one per axis; got {tuple(shape)}.")
    shape = tuple(int(n) for n in shape)
    if channel_axis is not None:
        whole = isinstance(channel_axis, (int, np.integer)) and not isinstance(channel_axis, bool)
        if not whole or not -len(shape) <= channel_axis < len(shape):
            raise ValueError(
                f"`channel_axis` must be an axis of the array, between {-len(shape)} and "
                f"{len(shape) - 1} for shape {shape}; got {channel_axis}."
            )
        channel_axis = int(channel_axis) % len(shape)
    spatial = tuple(n for k, n in enumerate(shape) if k != channel_axis)
    if not spatial or 0 in shape:
        raise ValueError(
            f"an array needs at least one axis and one sample; got shape {shape}"
            + (" of which one axis holds channels." if channel_axis is not None else ".")
        )
    domain = make_domain(spatial, dims=dims, coords=coords, periodic=periodic)
    settings = Smooth() if settings is None else settings
    if not callable(getattr(settings, "modes", None)):
        raise TypeError(f"`settings` must come from smooth(...) or paper(...); got {settings!r}.")
    if partition is None:
        partition = settings.partition(spatial, domain.periodic)
    elif partition.shape != spatial or partition.periodic != domain.periodic:
        raise ValueError(
            f"`partition` must be made for this array, shape {spatial} and periodic axes "
            f"{domain.periodic}; got one for {partition.shape} and {partition.periodic}."
        )
    return Encoder(shape, settings, channel_axis, domain, partition)


@dataclass(frozen=True, eq=False)
class Encoder:
    """A partition and its modes, held ready: ``encode(array) -> Field``, linear in the array.

    With ``order="auto"`` the first array decides the order for all that follow.
    """

    shape: tuple[int, ...]
    settings: Settings
    channel_axis: int | None
    domain: Domain
    partition: Partition

    def __post_init__(self) -> None:
        object.__setattr__(self, "_kept", {})

    @with_less_memory
    def __call__(
        self, values: Array, *, mask: Array | None = None, progress: Progress = silent
    ) -> Any:
        """The Field of one array of the encoder's shape; parameters as for :func:`fit`.

        An array with one more axis in front is a batch: a list of Fields, from one matrix product.
        """
        values, mask = unmasked(values, mask, self.channel_axis, len(self.shape))
        if values.ndim == len(self.shape) + 1:
            return self._batch(values, mask, progress)
        raw, present, is_complex, ends = checked(values, self.shape, self.channel_axis, mask)
        y, offset, scale = raw, None, None
        if ends is None:
            y, offset, scale = standardise(raw, present, self.settings.centred)
        else:
            offset, scale = standard_of(ends, raw, self.settings.centred)
        filled = y if present is None else self._fill(y, present)
        # Batches are standardised in their turn, unless someone has to see all samples at once.
        later = ends is not None and not self._is_choosy
        if ends is not None and not later:
            y = filled = (raw - offset) / scale
        settings = self._settled(filled)
        units = to_numpy(scale).astype(np.float64)
        groups, residual = self._project(
            settings, filled, present, (offset, scale) if later else None, progress
        )
        groups, noise = _denoised(groups, settings, scale)
        left = ((residual + noise) * units**2).sum(axis=1)
        blended = Blended(self.partition, tuple(groups), *self._frames(groups))
        limits = data_range(raw, present, ends)
        samples = Samples(y, raw, present, offset, units, limits, is_complex)
        target = getattr(settings, "target", None)
        if target is not None:
            blended, dropped = meet(blended, samples, target)
            left = left + dropped
        return Field(
            self.domain,
            blended,
            offset,
            scale,
            self.channel_axis,
            is_complex,
            str(values.dtype).removeprefix("torch."),
            samples.data_range,
            left,
            settings,
        )

    @property
    def _is_choosy(self) -> bool:
        """Whether something is decided by looking at all samples."""
        target, order = (getattr(self.settings, k, None) for k in ("target", "order"))
        return target is not None or (order == "auto" and "settings" not in self._kept)  # type: ignore[attr-defined]

    def _batch(self, frames: Array, mask: Array | None, progress: Progress) -> list[Field]:
        """A Field for each array along the first axis; frames are fitted as channels of one."""
        xp = namespace(frames)
        choosy = getattr(self.settings, "target", None) or getattr(self.settings, "denoise", False)
        if tuple(frames.shape[1:]) != self.shape or frames.shape[0] == 0:
            raise ValueError(
                f"a batch must have shape (n, {', '.join(map(str, self.shape))}), n at least 1; "
                f"got {tuple(frames.shape)}."
            )
        if choosy or mask is not None or xp.isdtype(frames.dtype, "complex floating"):
            T = frames.shape[0]
            count = T if mask is None else mask.shape[0] if is_array(mask) else len(mask)
            if count != T:
                raise ValueError(f"`mask` must have one part for each of {T} arrays; got {count}.")
            parts = [None if mask is None else mask[t, ...] if is_array(mask) else mask[t]
                     for t in range(T)]  # fmt: skip
            return [self(frames[t, ...], mask=m, progress=progress) for t, m in enumerate(parts)]
        k = self.channel_axis
        last = frames[..., None] if k is None else xp.moveaxis(frames, k + 1, -1)
        T, C = last.shape[0], last.shape[-1]
        joined = xp.reshape(xp.moveaxis(last, 0, -2), (*last.shape[1:-1], T * C))
        whole = replace(self, shape=tuple(joined.shape), channel_axis=joined.ndim - 1)
        object.__setattr__(whole, "_kept", self._kept)  # type: ignore[attr-defined]
        every: Field = whole(joined, progress=progress)
        fields = []
        for t in range(T):
            own = slice(t * C, (t + 1) * C)
            groups = tuple(
                replace(g, coefficients=g.coefficients[..., own]) for g in every.blended.groups
            )
            y = joined[..., own]
            fields.append(
                replace(
                    every,
                    blended=replace(every.blended, groups=groups),
                    offset=every.offset[own],
                    scale=every.scale[own],
                    channel_axis=k,
                    data_range=range_of(y),
                    residual=None,
                )
            )
        return fields

    def _project(
        self,
        settings: Settings,
        y: Array,
        present: Array | None,
        standard: tuple[Array, Array] | None,
        progress: Progress,
    ) -> tuple[list[Group], Any]:
        """Coefficients of all regions, and the energy they leave over, (N, C).

        With `standard`, offset and scale, the samples are brought to it batch by batch.
        """
        xp, C = namespace(y), y.shape[-1]
        N, done = self.partition.n_regions, 0
        residual = np.zeros((N, C))
        groups = []
        for box, inside, regions in self._footprints(settings):
            modes = self._modes(settings, box, inside, y)
            n_samples = math.prod(box) if inside is None else int(inside.sum())
            step = self._step(box, modes, y)
            parts = runs(len(regions), step)
            store, lefts = None, []
            for i, j in parts:
                batch = regions[i:j]
                Y = gather_boxes(y, self.partition, batch, box, inside)  # (G, S, C)
                if standard is not None:
                    Y = Y - standard[0] if settings.centred else Y / standard[1]
                    if settings.centred:
                        Y /= standard[1]  # in place: a batch is passed over often enough
                if present is not None and isinstance(modes, DenseModes):
                    have = gather_boxes(present, self.partition, batch, box, inside)
                    Y = _least_squares_fill(modes, Y, have)
                c = xp.permute_dims(modes.project(Y), (2, 0, 1))  # channels first in memory
                if modes.n_modes < n_samples:  # else nothing is left over
                    left = xp.sum(Y * Y, axis=1) - xp.permute_dims(xp.sum(c * c, axis=2), (1, 0))
                    lefts.append(xp.astype(left, xp.float64))
                if len(parts) == 1:
                    store = c
                else:
                    if store is None:
                        shape = (C, len(regions), c.shape[2])
                        store = xp.empty(shape, dtype=c.dtype, device=device_of(c))
                    store[:, i:j, :] = c
                done += len(batch)
                progress("fit", done, N)
            groups.append(Group(modes, regions, xp.permute_dims(store, (1, 2, 0))))
            if lefts:
                residual[regions] = to_numpy(xp.concat(lefts, axis=0))
        return groups, np.maximum(residual, 0)

    def _step(self, box: tuple[int, ...], modes: Modes, y: Array) -> int:
        """Regions to project together."""
        numbers = room(y)
        if isinstance(modes, ProductModes) and is_on_host(y):
            numbers = min(numbers, CACHED)
        step: int = max(1, numbers // (4 * max(math.prod(box), modes.n_modes) * y.shape[-1]))
        row = math.prod(self.partition.n_cells[1:])  # whole rows of cells are taken by axes
        return max(step // row * row, row) if step * 4 > row else step

    def _fill(self, y: Array, present: Array) -> Array:
        """The samples with what is missing filled in, at least as smoothly as by thin plates."""
        order = getattr(self.settings, "order", FILL_ORDER)
        order = FILL_ORDER if isinstance(order, str) else max(FILL_ORDER, float(np.mean(order)))
        return fill_missing(y, present, order, self.domain.periodic)

    def _settled(self, y: Array) -> Settings:
        """The settings, with choices that depend on the samples made once, by the first array."""
        kept: dict[Any, Any] = self._kept  # type: ignore[attr-defined]
        if "settings" not in kept:
            settle = getattr(self.settings, "settled", None)
            kept["settings"] = self.settings if settle is None else settle(y)
        chosen: Settings = kept["settings"]
        return chosen

    def _footprints(self, settings: Settings) -> list[tuple[tuple[int, ...], Any, Any]]:
        """Box, samples inside it that count (None: all) and regions of each group.

        Least squares must see a merged region's own samples only. Smooth modes are right to see
        the whole box: more is known, and the functions are the same.
        """
        if hasattr(settings, "shaped") and not self.partition.is_regular:
            return self.partition.shapes
        return [(box, None, regions) for box, regions in self.partition]

    def _modes(self, settings: Settings, box: tuple[int, ...], inside: Any, like: Array) -> Modes:
        kept: dict[Any, Modes] = self._kept  # type: ignore[attr-defined]
        shape = None if inside is None else inside.tobytes()
        key = (box, shape, namespace(like).__name__, str(device_of(like)))
        if key not in kept:
            shaped = getattr(settings, "shaped", None)
            if shaped is not None and not self.partition.is_regular:
                kept[key] = shaped(box, inside, like)
            else:
                kept[key] = settings.modes(box, like)
        return kept[key]

    def _frames(self, groups: list[Group]) -> tuple[Any, Any]:
        """Centres and radii of all regions' boxes, (N, d) each."""
        kept: dict[Any, Any] = self._kept  # type: ignore[attr-defined]
        if "frames" not in kept:
            starts, sizes = self.partition.boxes
            radii = np.empty(starts.shape)
            for g in groups:
                radii[g.regions] = g.modes.radius
            kept["frames"] = starts + (sizes - 1) / 2, radii
        frames: tuple[Any, Any] = kept["frames"]
        return frames


def _denoised(groups: list[Group], settings: Settings, scale: Array) -> tuple[list[Group], Any]:
    """Coefficients without noise, if the settings ask for that; the energy taken off, (N, C)."""
    level = getattr(settings, "denoise", False)
    if level is False:
        return groups, 0.0
    units = to_numpy(scale)
    shrunk, off = [], np.zeros((sum(len(g.regions) for g in groups), len(units)))
    for g in groups:
        assert isinstance(g.modes, ProductModes)
        c = g.coefficients
        noise = noise_level(c, g.modes) if level is True else float(level) / units
        clean = shrink(c, g.modes, noise)
        off[g.regions] = to_numpy(namespace(c).sum((c - clean) ** 2, axis=1))
        shrunk.append(replace(g, coefficients=clean))
    return shrunk, off


def _least_squares_fill(modes: DenseModes, Y: Array, present: Array) -> Array:
    """Boxes with some samples missing, completed by the least-squares fit of the others."""
    xp = namespace(Y)
    some = xp.all(xp.any(present, axis=1), axis=1) & ~xp.all(present, axis=(1, 2))
    (rows,) = xp.nonzero(some)
    if rows.shape[0] == 0:
        return Y
    completed = modes.complete(xp.take(Y, rows, axis=0), xp.take(present, rows, axis=0))
    place = xp.cumulative_sum(xp.astype(some, xp.int64)) - 1
    spread = xp.take(completed, xp.maximum(place, xp.zeros_like(place)), axis=0)
    return xp.where(some[:, None, None], spread, Y)
