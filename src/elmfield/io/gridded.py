"""Gridded: samples with everything their file says about them; what readers give and writers take.

It knows neither files nor fields.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.backend import as_dtype, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field.labels import coordinates_out
from elmfield.io.model.plain import keepable
from elmfield.io.words import axis_in_words


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Gridded:
    """Samples on a grid, and what is known about them.

    ``np.asarray(samples)`` gives the bare array; :func:`elmfield.fit` takes all of it.

    Parameters
    ----------
    values : array
        The samples; NaN where one is missing.
    dims : tuple of str
        Of the axes that are not channels, in array order.
    coords : mapping of str to array
        Where the samples lie, by dim; an axis that is left out only counts.
    channel_axis : int or None
        Which axis holds channels.
    periods : mapping
        Period of each axis that repeats, by name.
    attributes : mapping
        See :mod:`elmfield.field.labels`; and what a format needs to be written again, as ``align``
        ("areas" or "nodes": what a sample stands for), ``crs``, ``transform``, ``header``,
        ``grid``.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> ef.write(np.eye(12), "eye.npy")
    >>> samples = ef.read("eye.npy")
    >>> samples.shape, samples.dims, np.asarray(samples).dtype
    ((12, 12), ('axis0', 'axis1'), dtype('float64'))
    """

    values: Array
    dims: tuple[str, ...]
    coords: Mapping[str, Floats] = field(default_factory=dict)
    channel_axis: int | None = None
    periods: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, channels left out."""
        return tuple(n for k, n in enumerate(self.values.shape) if k != self.channel_axis)

    @property
    def array_axes(self) -> list[int]:
        """Position in the array of each named axis."""
        return [k for k in range(self.values.ndim) if k != self.channel_axis]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The samples alone, for ``np.asarray``."""
        return np.array(to_numpy(self.values), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        about = self.attributes
        name, unit = about.get("name"), about.get("attrs", {}).get("units")
        sizes = " × ".join(map(str, self.values.shape))
        head = f"Gridded {name!r}: " if name else "Gridded: "
        lines = [f"{head}{sizes} {self.values.dtype}" + (f", {unit}" if unit else "")]
        for dim, n in zip(self.dims, self.shape):
            axis, c = about.get("axes", {}).get(dim, {}), self.coords.get(dim)
            lines.append(axis_in_words(dim, n, c, axis, periodic=dim in self.periods))
        if self.channel_axis is not None:
            labels = about.get("channels", {}).get("labels", ())
            told = f": {', '.join(map(str, labels))}" if 0 < len(labels) < 9 else ""
            n = self.values.shape[self.channel_axis]
            lines.append(f"{self.channel_name}: {n} channels{told}")
        return "\n  ".join(lines)

    # --- channels ------------------------------------------------------------------------------

    @property
    def channel_name(self) -> str:
        """What the axis of channels is called."""
        return str(self.attributes.get("channels", {}).get("name", "channel"))

    def with_channels(self, channel_axis: int | str) -> "Gridded":
        """The same samples with one axis, given by number or name, taken as channels."""
        names: list[str] = list(self.dims)
        if self.channel_axis is not None:
            names.insert(self.channel_axis, self.channel_name)
        k = axis_number(channel_axis, names)
        if k == self.channel_axis:
            return self
        if self.channel_axis is not None:
            raise ValueError(
                f"`channel_axis` must be {self.channel_axis} ({self.channel_name!r}), where these "
                f"samples have their channels; got {channel_axis!r}. Leave it out."
            )
        name, axes = names[k], self.attributes.get("axes", {})
        channels: dict[str, Any] = {"name": name}
        if name in self.coords:
            labels = list(coordinates_out(self.coords[name], axes.get(name, {})))
            channels |= keepable({"labels": labels})
        return replace(
            self,
            dims=tuple(d for d in names if d != name),
            coords=_without(self.coords, name),
            channel_axis=k,
            periods=_without(self.periods, name),
            attributes={**self.attributes, "channels": channels},
        )

    # --- parts ---------------------------------------------------------------------------------

    def pick(self, name: str, which: int | slice) -> "Gridded":
        """The samples at one index of an axis (which then goes), or in a range of it."""
        if name not in self.dims:
            raise ValueError(f"there is no axis {name!r}; the axes are {', '.join(self.dims)}.")
        k = self.dims.index(name)
        return self._range(k, which) if isinstance(which, slice) else self._one(k, which)

    def _range(self, k: int, which: slice) -> "Gridded":
        """The samples in a range of axis k."""
        name, n, c = self.dims[k], self.shape[k], self.coords.get(self.dims[k])
        left = len(range(n)[which])
        if not left:
            raise ValueError(f"nothing is left of axis {name!r}, which has {n} samples.")
        return replace(
            self,
            values=self._taken(k, which),
            coords=self.coords if c is None else {**self.coords, name: c[which]},
            periods=self.periods if left == n else _without(self.periods, name),
            attributes=self._moved(k, which),
        )

    def _one(self, k: int, which: int) -> "Gridded":
        """The samples at one index of axis k, which goes; where that was, is noted."""
        name, n, c = self.dims[k], self.shape[k], self.coords.get(self.dims[k])
        if not -n <= which < n:
            raise ValueError(f"axis {name!r} has {n} samples; there is no number {which}.")
        channel = self.channel_axis
        if channel is not None and self.array_axes[k] < channel:
            channel -= 1
        attributes = dict(self.attributes)
        if "affine" in attributes and k < attributes.get("n_placed", 3):
            starts, steps = grid_of(self)
            at_ = starts[k] + steps[k] * (which % n)
            attributes |= without_axis(attributes, k, at_)
        if "grid" in attributes:
            attributes["grid"] = {
                key: [v for j, v in enumerate(list_) if j != k]
                for key, list_ in attributes["grid"].items()
            }
        if c is not None:
            about = attributes.get("axes", {}).get(name, {})
            at = coordinates_out(c[which : which + 1 or None], about)[0]
            other = {"dims": [], "values": at, "attrs": about.get("attrs", {})}
            attributes["coords"] = {**attributes.get("coords", {}), name: other}
        return Gridded(
            values=self._taken(k, which),
            dims=self.dims[:k] + self.dims[k + 1 :],
            coords=_without(self.coords, name),
            channel_axis=channel,
            periods=_without(self.periods, name),
            attributes=attributes,
        )

    def _taken(self, k: int, which: int | slice) -> Array:
        index: list[int | slice] = [slice(None)] * self.values.ndim
        index[self.array_axes[k]] = which
        return self.values[tuple(index)]

    def _moved(self, k: int, which: slice) -> dict[str, Any]:
        """Attributes with the grid of a slice of axis k."""
        start, _, step = which.indices(self.shape[k])
        starts, steps = grid_of(self)
        starts[k], steps[k] = starts[k] + steps[k] * start, steps[k] * step
        return {**self.attributes, "grid": {"start": starts, "step": steps}}


def as_filed(samples: Gridded) -> Array:
    """The values as their file had them: its dtype, and its own number for a missing one."""
    values, about = np.asarray(samples.values), samples.attributes
    fill, own = about.get("fill_value"), about.get("dtype")
    if fill is None or values.dtype.kind != "f" or not np.isfinite(fill):
        return values
    gone = np.isnan(values)
    if own is not None and np.dtype(own).kind in "iu":
        return np.where(gone, np.asarray(fill, own), as_dtype(values, own))
    return np.where(gone, np.asarray(fill, values.dtype), values)


def _without(by_dim: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: v for key, v in by_dim.items() if key != name}


def axis_number(axis: int | str, names: Sequence[str]) -> int:
    """Which axis is meant by `channel_axis`, a number or one of the axes' names."""
    n = len(names)
    if isinstance(axis, str):
        if axis in names:
            return list(names).index(axis)
    elif isinstance(axis, (int, np.integer)) and not isinstance(axis, bool) and -n <= axis < n:
        return int(axis) % n
    raise ValueError(
        f"`channel_axis` must be one of the axes {list(names)}, or a number between {-n} and "
        f"{n - 1}; got {axis!r}."
    )


def without_axis(attributes: Mapping[str, Any], k: int, at: float) -> dict[str, Any]:
    """The affine of what is left at one place on axis k, which becomes the last of three."""
    affine = np.array(attributes["affine"], np.float64)
    affine[:, 3] += affine[:, k] * at
    order = [*(j for j in range(3) if j != k), k]
    affine[:, :3] = affine[:, order]
    return {"affine": affine.tolist(), "n_placed": attributes.get("n_placed", 3) - 1}


def grid_of(samples: Gridded) -> tuple[list[float], list[float]]:
    """First sample and step along each axis, in samples of the file the values came from."""
    d = len(samples.dims)
    grid = samples.attributes.get("grid", {"start": [0.0] * d, "step": [1.0] * d})
    return list(map(float, grid["start"])), list(map(float, grid["step"]))


def plain_grid(
    values: Array, dims: Sequence[str], channel_axis: int | None = None, **attributes: Any
) -> Gridded:
    """Gridded samples without coordinates."""
    return Gridded(
        values=values,
        dims=tuple(dims),
        channel_axis=channel_axis,
        attributes=keepable(attributes),
    )


def fingerprint(values: Array) -> dict[str, Any]:
    """Shape, dtype, range and SHA-256 of an array, for provenance."""
    host = np.ascontiguousarray(to_numpy(values))
    about: dict[str, Any] = {"shape": list(host.shape), "dtype": host.dtype.name}
    if host.dtype.kind in "biuf" and host.size:
        finite = host[np.isfinite(host)] if host.dtype.kind == "f" else host
        if finite.size:
            about["range"] = [float(finite.min()), float(finite.max())]
    return {**about, "sha256": hashlib.sha256(host.data).hexdigest()}
