"""A field on a grid as a Dask array, evaluated block by block when it is computed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype, namespace, to_numpy
from elmfield._array.checks import is_mapping, shown
from elmfield._array.typing import Array, DType, Floats, Integers
from elmfield.errors import MissingExtraError
from elmfield.field.coordinates.output_positions import mark_outside
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.grid_values import at_samples, gridded, sample_dtype, tail_of

if TYPE_CHECKING:
    from elmfield.field.model import Model


@dataclass(frozen=True, eq=False)
class LazyGrid:
    """An array of a field's values that is evaluated where it is sliced.

    Parameters
    ----------
    model : Model
        The field's.
    x : sequence of arrays, optional
        Index coordinates on each axis; by default of the field's own samples, which come back as
        they were given.
    beyond : list of arrays of bool, optional
        Which of them lie outside the domain, and become NaN.
    quantity : str
        What is shown.
    dtype_asked : optional
        Dtype asked for.
    gaps : bool
        Whether what was missing is NaN.
    boxes : sequence of places, optional
        Edges between which values are means, on axes that have them.
    """

    model: "Model" = field(repr=False)
    x: Sequence[Floats] | None = field(default=None, repr=False)
    beyond: Sequence[Array] = field(default=(), repr=False)
    quantity: str = "value"
    dtype_asked: DType = None
    gaps: bool = False
    boxes: Sequence[Floats | None] = field(default=(), repr=False)

    @cached_property
    def places(self) -> list[Floats]:
        """Index coordinates on each axis."""
        if self.x is None:
            return [own.astype(np.float64) for own in own_samples(self.model.domain)]
        return list(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """Values on each axis, channels where the input had them, components last."""
        sizes = list(map(len, self.places))
        if self.model.channel_axis is not None:
            sizes.insert(self.model.channel_axis, self.model.n_channels)
        return (*sizes, *self.tail)

    @property
    def tail(self) -> tuple[int, ...]:
        """The shape of the components of a vector or matrix."""
        return tail_of(self.quantity, len(self.places))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """Of the values."""
        kind = self.dtype_asked
        if kind is None and self._gives_samples:
            kind = sample_dtype(self.model, self.gaps)
        none = self.model.joined(self.model.offset[:0])
        if self.quantity == "gradient_magnitude":
            none = namespace(none).abs(none)
        return to_numpy(as_dtype(none, kind)).dtype

    @property
    def _gives_samples(self) -> bool:
        return self.x is None and self.quantity == "value"

    def __getitem__(self, key: tuple[slice | Integers, ...]) -> Array:
        """The values of a slab, or on the grid of some numbers on each axis."""
        k = self.model.channel_axis
        head = key[: len(key) - len(self.tail)]
        slab = [s for j, s in enumerate(head) if j != k]
        x = [c[s] for c, s in zip(self.places, slab)]
        if self._gives_samples:
            found = at_samples(
                self.model, [c.astype(np.int64) for c in x], self.dtype_asked, gaps=self.gaps
            )
        else:
            edges = [
                None if b is None or not isinstance(s, slice) else b[s.start or 0 : s.stop + 1]
                for b, s in zip(self.boxes, slab)
            ]
            found = gridded(
                self.model, x, self.dtype_asked, self.quantity, gaps=self.gaps, boxes=edges
            )
        values = to_numpy(found)
        if self.beyond:
            values = mark_outside(values, [b[s] for b, s in zip(self.beyond, slab)], k)
        whole = [slice(None) if j != k else s for j, s in enumerate(head)]
        return values[(*whole, *key[len(head) :])]


def to_dask(lazy: LazyGrid, chunks: Any) -> Any:
    """The values as a Dask array; by default in chunks that match the tiles of its samples."""
    try:
        import dask.array as da
    except ImportError as error:
        raise MissingExtraError("lazy arrays need Dask; pip install 'elmfield[dist]'.") from error
    if chunks is None or (is_mapping(chunks) and not chunks):
        n = lazy.ndim - len(lazy.tail)
        chunks = (*matching(lazy.model, lazy.shape[:n]), *lazy.tail)
    try:
        normalize: Any = da.core.normalize_chunks
        chunks = normalize(chunks, lazy.shape, dtype=lazy.dtype)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise ValueError(
            f"`chunks` must be what dask.array takes for shape {lazy.shape}; got "
            f"{shown(chunks)}: {error}"
        ) from error
    from_array: Any = da.from_array
    return from_array(lazy, chunks=chunks, asarray=False, fancy=False, name=False)


def matching(model: "Model", shape: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of chunks of a grid that touch as few tiles of a field's samples as may be.

    Of an array of this shape: tiles, made as much longer or shorter as the grid is than the
    samples; all channels together.
    """
    boxes = model.blended.source_samples
    k = model.channel_axis if len(shape) > len(model.domain.shape) else None
    tiles = None if boxes is None else boxes.tiles
    sizes = list(shape)
    if k is not None:
        del sizes[k]
    tile = [512] * len(sizes) if tiles is None else list(tiles.tiling.tile[:-1])
    found = [max(1, min(n, round(t * n / m))) for t, n, m in zip(tile, sizes, model.domain.shape)]
    if k is not None:
        found.insert(k, shape[k])
    return tuple(found)
