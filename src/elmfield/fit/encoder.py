"""From samples to a Field: fill gaps, denoise, settle the settings, cut, project each region."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmfield._array.autograd import gradient_error
from elmfield._array.backend import device as device_of
from elmfield._array.backend import is_array, is_labelled, namespace, requires_grad, to_numpy
from elmfield._array.channel_stats import ChannelStats
from elmfield._array.checks import axis_of, choice, entries, sizes_of, wrong
from elmfield._array.progress import reporter
from elmfield._array.running import with_less_memory
from elmfield._array.typing import Array, Floats, Progress
from elmfield.domain import Domain, Periodic, make_domain
from elmfield.field import Blended, Field, Group, meet
from elmfield.field.coefficients.from_samples import FromSamples
from elmfield.field.coefficients.sample_boxes import SampleBoxes, missing_in
from elmfield.field.coefficients.stored import Coefficients, draws_of
from elmfield.field.coordinates.labels import Labels
from elmfield.field.coordinates.output_positions import WAYS
from elmfield.field.model import Model
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.fit.gaps.fill import fill_missing
from elmfield.fit.noise_model import denoise_samples, removed_energy
from elmfield.fit.statistics import Slabs, Survey
from elmfield.local.bases import DenseWeights, ProductModes, WaveModel
from elmfield.local.bases.spline_modes import uneven_modes
from elmfield.local.model import Basis
from elmfield.partition import Partition
from elmfield.partition.cells import rings_of, without_rings
from elmfield.samples import WHOLE, Samples, read, unmasked, warn_of_rounding
from elmfield.settings import Settings, Smooth, with_levels
from elmfield.settings.oriented import resolved

GAP_ORDER = 2.0
"""Order along a line by which gaps are filled that stay gaps. At the coasts of half of ERA5 values
were as good as after a careful fill (t2m 0.371 K, 0.372 K), in a tenth of its time."""


def encoder(
    shape: Sequence[int],
    settings: Settings | None = None,
    *,
    channel_axis: int | str | None = None,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    periodic: Periodic = (),
    bounds: Mapping[str, Array] | None = None,
    partition: Partition | None = None,
) -> "Encoder":
    """An Encoder for arrays of one shape; see :func:`elmfield.encoder`."""
    if np.ndim(shape) > 1:
        raise wrong("shape", "be whole numbers, one per axis", shape, hint="Pass array.shape.")
    shape = sizes_of("shape", shape, least=0)
    if channel_axis is not None:
        channel_axis = axis_of("channel_axis", channel_axis, shape)
    spatial = tuple(n for k, n in enumerate(shape) if k != channel_axis)
    if not spatial or 0 in shape:
        raise ValueError(
            f"an array needs at least one axis and one sample; got shape {shape}"
            + (" of which one axis holds channels." if channel_axis is not None else ".")
        )
    domain = make_domain(spatial, dims=dims, coords=coords, periodic=periodic, bounds=bounds)
    if settings is None:
        settings = Smooth()
    elif not isinstance(settings, Settings):
        must = "come from smooth(...), oriented(...) or paper(...)"
        raise wrong("settings", must, settings, TypeError)
    if partition is not None:
        if not isinstance(partition, Partition):
            must = "come from beam(...), or be a Partition"
            raise wrong("partition", must, partition, TypeError)
        if partition.shape != spatial or partition.periodic != domain.periodic:
            must = f"be made for this array, shape {spatial} and periodic axes {domain.periodic}"
            raise wrong("partition", must, (partition.shape, partition.periodic))
        partition = without_rings(settings.adopt(partition))
    return Encoder(
        shape=shape,
        settings=settings,
        channel_axis=channel_axis,
        domain=domain,
        partition=partition,
    )


def gap_order(settings: Settings, missing: str) -> float | None:
    """Order along a line by which gaps are filled; None lets boxes choose."""
    quick = missing == "nan" and settings.fill_order is None
    return GAP_ORDER if quick else settings.fill_order


class Encoder:
    """A partition and its bases, held ready: ``encode(array) -> Field``.

    With ``order="auto"``, the default, the first array decides the order for all that follow; a fit
    of a given order is linear in the array.

    Parameters
    ----------
    shape, channel_axis : tuple of int, and int or None
        Of the arrays, channels included; which axis these are.
    settings, domain : Settings and Domain
        What to do with them, and where samples lie.
    partition : Partition, optional
        The regions; by default as the settings cut them.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> encode = ef.encoder((20, 30), ef.smooth(order=2))
    >>> encode(np.ones((20, 30))).shape, len(encode.batch(np.ones((5, 20, 30))))
    ((20, 30), 5)
    """

    def __init__(
        self,
        *,
        shape: tuple[int, ...],
        settings: Settings,
        channel_axis: int | None,
        domain: Domain,
        partition: Partition | None = None,
    ) -> None:
        self.shape, self.channel_axis = shape, channel_axis
        self.settings, self.domain = settings, domain
        self._cut = partition and replace(partition, spacings=domain.spacings)
        self.read: Callable[[Array], Array] | None = None
        """How labelled arrays become an array and what is known of it; None takes the numbers."""
        self.place: Callable[[Field, Any], Field] = lambda field, given: field
        """What is made of a field with what is known of its array: one on a mesh."""
        self._models: dict[tuple[object, ...], Basis | DenseWeights | WaveModel] = {}
        # Choices that depend on the samples are made once, by the first array.
        fixed = settings.is_resolved and not any(domain.spacings)
        self._resolved: Settings | None = settings if fixed else None

    @property
    def partition(self) -> Partition:
        """The caller's partition, or that of the settings, once they are resolved."""
        if self._cut is None:
            settings, domain = self._resolved or self.settings, self.domain
            cut = settings.partition(domain.shape, domain.periodic)
            cut = replace(cut, spacings=domain.spacings) if any(domain.spacings) else cut
            if self._resolved is None:
                return cut
            self._cut = cut
        return self._cut

    def __repr__(self) -> str:
        return f"Encoder({'×'.join(map(str, self.shape))}, {self.settings})"

    @with_less_memory
    def __call__(
        self,
        values: Array,
        *,
        mask: Array | None = None,
        missing: str | None = None,
        progress: Progress | bool = False,
    ) -> Field:
        """The Field of one array of the encoder's shape; parameters as for `elmfield.fit`.

        With ``missing="nan"`` gaps stay gaps: they are filled only as the fit needs it, which is
        several times faster.
        """
        given: Any = None
        if is_labelled(values) and self.read is not None:
            given = self.read(values)
            values, missing = given.values, missing or given.labels.missing
        elif is_labelled(values):
            values = self._unlabelled(values)
        missing = "fill" if missing is None else missing
        choice("missing", missing, WAYS)
        values, mask = unmasked(values, mask, self.channel_axis, len(self.shape))
        k, centred = self.channel_axis, self.settings.centred
        samples = read(values, mask, shape=self.shape, channel_axis=k, centred=centred)
        model = self._fit(samples, k, reporter(progress), missing)
        if given is None:
            return Field(model)
        labels = given.labels.of_field(model.labels)
        return self.place(Field(replace(model, labels=labels)), given)

    def _fit(
        self, samples: Samples, channel_axis: int | None, progress: Progress, missing: str = "fill"
    ) -> Model:
        """The method, step by step: what stands between checked samples and their field."""
        asked, wraps, spacings = self.settings, self.domain.periodic, self.domain.spacings
        if requires_grad(samples.raw) and asked.target is not None:
            raise gradient_error("an error target, which chooses what to keep")
        if asked.target is None and samples.dtype in WHOLE:
            warn_of_rounding(float(np.max(np.abs(to_numpy(samples.raw)))))
        if samples.present is not None:
            order, present = gap_order(asked, missing), samples.present
            y = fill_missing(samples.values, present, wraps, order, spacings)
            samples = samples.changed(y, ~present)
        noisy, levels, kept = samples, tuple[float, ...](), np.ones(1)
        if asked.denoise is not False or asked.clip:
            how = (asked.denoise, wraps, spacings)
            samples, levels, kept = denoise_samples(noisy, *how, clip=asked.clip)
        settings = self._resolved or resolved(asked, samples, spacings)
        self._resolved = settings
        groups = self._coefficients(settings, SampleBoxes.of_fit(samples, own=False))
        found, left = self._project(groups, samples, progress)
        blended = self._blended(groups, found)
        with np.errstate(over="ignore", under="ignore"):  # a residual without a number is left out
            residual = left.sum(axis=1)
            if residual.any():  # roots first: their squares may overflow
                residual = ((np.sqrt(left) * samples.units) ** 2).sum(axis=1)
            if samples is not noisy:
                residual = residual + removed_energy(noisy, samples, self.partition)
        evidence = Evidence.of_noise(levels, kept, samples.scale) if levels else None
        if settings.target is not None:
            blended, dropped, lost = meet(blended, samples, settings.target)
            residual = residual + dropped
            evidence = replace(evidence or Evidence(), coding=lost)
        present = samples.present if blended.source_samples is None else None
        return Model(
            domain=self.domain,
            blended=blended,
            offset=samples.offset,
            scale=samples.scale,
            channel_axis=channel_axis,
            is_complex=samples.is_complex,
            input_dtype=samples.dtype,
            data_range=samples.data_range,
            residual=residual if np.isfinite(residual).all() else None,
            gaps=None if present is None else missing_in(present[..., : samples.n_channels]),
            settings=with_levels(settings, levels) if levels else settings,
            evidence=evidence,
            labels=Labels(missing=missing, samples=settings.samples),
        )

    def _coefficients(self, settings: Settings, boxes: SampleBoxes) -> list[FromSamples]:
        """Coefficients of all regions, those of a footprint together, yet to be projected.

        The field keeps samples where these say all about it: with product modes and regular cells,
        unless a library follows the samples, and with regions that choose their energies.
        """
        part, found = self.partition, []
        is_plain = part.is_regular and not requires_grad(boxes.like)
        is_own = settings.own_samples and not part.is_regular  # those of merged regions
        each = part.shapes if is_own else [(box, None, regions) for box, regions in part]
        for box, inside, regions in each:
            inside = np.ones(box, bool) if is_own and inside is None else inside
            model = self._model(settings, box, inside, boxes.like)
            keeps = isinstance(model, WaveModel) or (is_plain and model.axes is not None)
            made = FromSamples(
                boxes=boxes, partition=part, regions=regions, model=model, keeps_samples=keeps
            )
            found.append(made)
        return found

    def _project(
        self, groups: list[FromSamples], samples: Samples, progress: Progress
    ) -> tuple[list[Coefficients], Floats]:
        """Coefficients at hand of all groups of regions, and the energy they leave over, (N, C)."""
        N, done = self.partition.n_regions, 0
        left, found = np.zeros((N, groups[0].boxes.n_channels)), list[Array]()

        def tell(count: int) -> None:
            nonlocal done
            progress("fit", done := done + count, N)

        if all(c.is_their_samples for c in groups):
            tell(N)  # nothing is left over; coefficients are made when first asked for, and kept
            own = SampleBoxes.of_fit(samples)
            return [replace(c, boxes=own, is_kept=True) for c in groups], left
        for c in groups:
            if c.beliefs is None:
                every = np.arange(len(c.regions))
                values, left[c.regions] = c.project(every, samples.present, tell)
            else:  # regions pass through their samples, and choose an energy in between
                values = c.precompute().computed
                tell(len(c.regions))
            found.append(values)
        if not any(c.keeps_samples for c in groups):
            return [c.kept(values) for c, values in zip(groups, found)], left
        own = SampleBoxes.of_fit(samples)
        return [replace(c, computed=v, boxes=own) for c, v in zip(groups, found)], left

    def _blended(self, made: list[FromSamples], found: Sequence[Coefficients]) -> Blended:
        """One function of all regions, with centres and radii of their boxes."""
        starts, sizes = self.partition.boxes
        if len(made) == 1:  # all boxes are alike, and there may be a million of them
            sizes, radii = sizes[0], np.broadcast_to(made[0].model.radius, starts.shape)
        else:
            radii = np.empty(starts.shape)
            for c in made:
                radii[c.regions] = c.model.radius
        groups = []
        for c, values in zip(made, found):
            nodes = draws_of(c.model, c.regions)
            groups.append(Group(model=c.model, regions=c.regions, coefficients=values, nodes=nodes))
        centres = starts + (sizes - 1) / 2
        return Blended(partition=self.partition, groups=tuple(groups), centres=centres, radii=radii)

    @with_less_memory
    def batch(
        self,
        frames: Array | Sequence[Array],
        *,
        mask: Array | Sequence[Array] | None = None,
        progress: Progress | bool = False,
    ) -> list[Any]:
        """A list of Fields, one for each array, from one matrix product; nested for several axes.

        Parameters
        ----------
        frames : array, shape ``(n, ..., *shape)``, or sequence of arrays
            The arrays, along one axis or more.
        mask : array or sequence, optional
            What is missing in each of them.
        progress : callable or bool
            As for `elmfield.fit`.
        """
        d, k = len(self.shape), self.channel_axis
        frames, mask = unmasked(frames, mask, k, d)
        xp = namespace(frames)
        lead = tuple(frames.shape[: max(0, frames.ndim - d)])
        if len(lead) > 1 and tuple(frames.shape[-d:]) == self.shape and 0 not in lead:
            flat = xp.reshape(frames, (-1, *self.shape))
            if mask is not None and is_array(mask):
                mask = xp.reshape(mask, (flat.shape[0], *mask.shape[len(lead) :]))
            found: list[Any] = self.batch(flat, mask=mask, progress=progress)
            for n in reversed(lead[1:]):
                found = [found[i : i + n] for i in range(0, len(found), n)]
            return found
        if tuple(frames.shape[1:]) != self.shape or frames.shape[0] == 0:
            own = ", ".join(map(str, self.shape))
            raise wrong("frames", f"have shape (n, {own}), n at least 1", tuple(frames.shape))
        is_complex = xp.isdtype(frames.dtype, "complex floating")
        if not self.settings.is_linear or mask is not None or is_complex:
            T, masks = frames.shape[0], entries(mask) or ()
            if mask is None:
                masks = (None,) * T
            elif is_array(mask) and mask.ndim > 0:
                masks = tuple(mask[t, ...] for t in range(mask.shape[0]))
            if len(masks) != T:
                raise wrong("mask", f"have one part for each of {T} arrays", len(masks))
            return [self(frames[t, ...], mask=masks[t], progress=progress) for t in range(T)]
        last = frames[..., None] if k is None else xp.moveaxis(frames, k + 1, -1)
        T, C = last.shape[0], last.shape[-1]
        joined = xp.reshape(xp.moveaxis(last, 0, -2), (*last.shape[1:-1], T * C))
        shape, centred = joined.shape, self.settings.centred
        samples = read(joined, shape=shape, channel_axis=len(shape) - 1, centred=centred)
        every = self._fit(samples, len(shape) - 1, reporter(progress))
        ends = ChannelStats.of(samples.raw, samples.present)
        each = [slice(first, first + C) for first in range(0, T * C, C)]
        spans = ((own, ends[own].data_range) for own in each)
        return [Field(every.channels(own, channel_axis=k, data_range=r)) for own, r in spans]

    def _unlabelled(self, values: Array) -> Array:
        """The numbers of a DataArray that lies where this encoder's samples do."""
        dims = tuple(map(str, values.dims))
        every = len(dims) == len(self.shape)  # some names leave channels out
        own = [d for k, d in enumerate(dims) if not every or k != self.channel_axis]
        same = tuple(own) == self.domain.dims
        for axis in self.domain.axes if same else ():
            if axis.name not in values.coords:
                same = same and axis.coords is None
                continue
            at = np.asarray(values.coords[axis.name])
            same = same and at.dtype.kind in "iuf" and len(at) == axis.size
            same = same and np.allclose(at, axis.from_index(np.arange(axis.size, dtype=float)))
        if not same:
            raise ValueError(
                f"an array with named axes must lie where the encoder's samples do; got dims "
                f"{dims} for an encoder of {self.domain.dims}, or other coordinates. Fit it with "
                "elmfield.fit, or make the encoder of it: elmfield.encoder(array)."
            )
        return values.values

    def from_source(self, survey: Survey, slabs: Slabs) -> Field:
        """The Field of surveyed samples that are read slab by slab, projected when asked for."""
        settings = self._resolved or resolved(self.settings, survey, self.domain.spacings)
        self._resolved = settings
        boxes = SampleBoxes(
            source=slabs, offset=survey.offset, scale=survey.scale, like=survey.offset[:0],
            kind=slabs.kind,
        )  # fmt: skip
        groups = self._coefficients(settings, boxes)
        return Field(
            Model(
                domain=self.domain,
                blended=self._blended(groups, groups),
                offset=survey.offset,
                scale=survey.scale,
                channel_axis=self.channel_axis,
                is_complex=slabs.is_complex,
                input_dtype=slabs.dtype,
                data_range=survey.ends.data_range,
                residual=np.zeros(self.partition.n_regions),
                settings=settings,
            )
        )

    def _model(
        self, settings: Settings, box: tuple[int, ...], inside: Array | None, like: Array
    ) -> Basis | DenseWeights | WaveModel:
        own = None if inside is None else inside.tobytes()
        key = (box, own, namespace(like).__name__, str(device_of(like)))
        if key not in self._models:
            model, rings = settings.model(box, inside, like), rings_of(self.partition)
            if any(rings) and isinstance(model, ProductModes):
                model = model.closed(rings)
            spacings = self.domain.spacings
            self._models[key] = uneven_modes(model, spacings) if any(spacings) else model
        return self._models[key]
