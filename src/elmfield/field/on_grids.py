"""A field on grids: resized, at given coordinates, with names and units.

Asks the rooms beside it to place, evaluate and label; builds on the field at points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.checks import whole
from elmfield._array.typing import Array, Floats
from elmfield.field.gridded import gridded
from elmfield.field.labels import dataarray
from elmfield.field.placing import marked, positions
from elmfield.field.pointwise import Pointwise
from elmfield.field.reading import own_samples


@dataclass(frozen=True, eq=False, kw_only=True)
class OnGrids(Pointwise):
    """A field on grids; parameters as for :class:`Pointwise`."""

    # --- values on grids -----------------------------------------------------------------------

    def resize(
        self,
        shape: int | Sequence[int] | None = None,
        *,
        scale: float | Sequence[float] | None = None,
        window: Mapping[str, tuple[Any, Any]] | None = None,
        align: str = "areas",
        quantity: str = "value",
        dtype: Any = None,
    ) -> Array:
        """The field at another number of samples, each standing for an equal part of the domain.

        Sample j of n' sits at ``(j + 1/2) n / n' - 1/2``, as in `skimage.transform.resize`.

        Parameters
        ----------
        shape : int or sequence of int, optional
            New number of samples on each axis (without channels); or
        scale : float or sequence of float
            new samples per old one.
        window : mapping, optional
            The part to show on some axes, ``{dim: (low, high)}``, in the axes' own units; by
            default all. On a periodic axis it may lie anywhere.
        align : {"areas", "nodes"}
            "nodes" keeps old samples among the new ones, as weather services do.
        quantity : {"value", "gradient", "laplacian"}
            What to show; "gradient" is its magnitude. Both per unit of the coordinates.
        dtype : optional
            Of the result; integers are rounded and clipped, booleans are True from 1/2 on. Default:
            the field's own.
        """
        x = self.places(shape, scale=scale, window=window, align=align)
        return gridded(self, self._reader.in_turn(x), dtype, quantity)

    def places(
        self,
        shape: int | Sequence[int] | None = None,
        *,
        scale: float | Sequence[float] | None = None,
        window: Mapping[str, tuple[Any, Any]] | None = None,
        align: str = "areas",
    ) -> list[Floats]:
        """Index coordinates of the grid that `resize` would use, one array per axis.

        On a periodic axis they run on beyond its end, as the window does.
        """
        if shape is not None and scale is not None:
            raise ValueError(f"say `shape` or `scale`, not both; got {shape!r} and {scale!r}.")
        return positions(
            self.domain,
            shape=shape,
            scale=scale,
            window=self._reader.window({} if window is None else window),
            align=align,
        )

    def coarse(self, k: int) -> Array:
        """A quick look: about the means of blocks of 2^k samples on each axis.

        Of samples that were coded with loss only the first part of the bytes is decoded. For exact
        values of the function use `resize`.

        Parameters
        ----------
        k : int
            How often to halve; 0 for the samples.

        Returns
        -------
        array, shape (ceil(n / 2^k), ...)
            With channels where the input had them.
        """
        k = whole("k", k, 0)
        boxes, own = self.blended.made_of, tuple(map(len, own_samples(self.domain)))
        if k == 0:
            return self.samples()
        if boxes is None or own != self.shape or self.blended.needed[1] != self.shape:
            return self.resize([max(1, -(-n >> k)) for n in own])
        means = move(boxes.coarse(min(k, 62)), self.offset)
        flat = self.finish(namespace(means).reshape(means, (-1, means.shape[-1])), True)
        out = namespace(flat).reshape(flat, (*means.shape[:-1], -1))
        if self.channel_axis is None:
            return out[..., 0]
        return namespace(out).moveaxis(out, -1, self.channel_axis)

    def samples(self, *, dtype: Any = None) -> Array:
        """The field at its own samples: an array like the one fitted, or what a crop has of it."""
        return gridded(self, [own.astype(np.float64) for own in own_samples(self.domain)], dtype)

    def grid(
        self,
        *coords: Array | Mapping[str, Array],
        quantity: str = "value",
        dtype: Any = None,
        outside: str = "raise",
    ) -> Array:
        """Values on the grid spanned by one array of coordinates per axis.

        Parameters
        ----------
        *coords : arrays, or one mapping
            One per axis, in the axes' own units, or by dim: axes left out keep their samples. On
            axes of dates datetime64 or ISO text, or seconds since the first sample.
        quantity : {"value", "gradient", "laplacian"}
            As for `resize`.
        dtype : optional
            As for `resize`. Integers and booleans cannot say NaN.
        outside : {"raise", "nearest", "nan"}
            What to do with positions outside the domain.

        Returns
        -------
        array, shape (len(coords[0]), ..., len(coords[d-1]))
            With channels where the input had them.
        """
        d = len(self.shape)
        given = self._reader.by_axis(coords)
        if len(given) != d:
            raise ValueError(
                f"`grid` takes one array of coordinates per axis, {d}; got {len(given)}."
            )
        columns = [self._reader.column(k, c, outside) for k, c in enumerate(given)]
        x, beyond = map(list, zip(*columns))
        return marked(gridded(self, x, dtype, quantity), beyond, self.channel_axis)

    def to_xarray(
        self,
        coords: Mapping[str, Array] | None = None,
        *,
        quantity: str = "value",
        outside: str = "raise",
    ) -> Any:
        """Values on a grid as an xarray.DataArray, with the dims, coords and attrs of the input.

        Parameters
        ----------
        coords : mapping, optional
            Where to evaluate, by axis name: 1-D arrays (or DataArrays) in the axes' own units,
            dates on axes of dates. Axes that are not named keep their samples' positions.
        quantity : {"value", "gradient", "laplacian"}
            As for `resize`.
        outside : {"raise", "nearest", "nan"}
            What to do with positions outside the domain.
        """
        at, shown, moved = self._reader.named({} if coords is None else coords)
        values = to_numpy(self.grid(*at, outside=outside))
        return dataarray(values, self.domain.dims, shown, self.channel_axis, self.attributes, moved)
