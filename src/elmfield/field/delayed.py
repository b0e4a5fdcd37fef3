"""A field on a grid as a Dask array: evaluated block by block, where somebody asks."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.errors import MissingExtraError
from elmfield.field.gridded import gridded
from elmfield.field.placing import marked

if TYPE_CHECKING:
    from elmfield.field.on_grids import OnGrids


@dataclass(frozen=True, eq=False, kw_only=True)
class Waiting:
    """An array of a field's values that is evaluated where it is sliced.

    Parameters
    ----------
    of : Field
        The field.
    x : list of arrays
        Index coordinates on each axis.
    beyond : list of arrays of bool
        Which of them lie outside the domain, and become NaN.
    quantity : str
        What is shown.
    kind : optional
        Dtype asked for.
    gaps : bool
        Whether what was missing is NaN.
    """

    of: "OnGrids" = field(repr=False)
    x: list[Floats] = field(repr=False)
    beyond: list[Array] = field(repr=False)
    quantity: str = "value"
    kind: Any = None
    gaps: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Values on each axis, channels where the input had them."""
        sizes = list(map(len, self.x))
        if self.of.channel_axis is not None:
            sizes.insert(self.of.channel_axis, self.of.n_channels)
        return tuple(sizes)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """Of the values."""
        none = to_numpy(self.of.joined(self.of.offset[:0]))
        if self.quantity == "gradient":
            none = np.abs(none)
        return as_dtype(none, self.kind).dtype

    def __getitem__(self, key: tuple[slice, ...]) -> Array:
        """The values of a slab."""
        k = self.of.channel_axis
        slab = [s for j, s in enumerate(key) if j != k]
        x = [c[s] for c, s in zip(self.x, slab)]
        values = to_numpy(gridded(self.of, x, self.kind, self.quantity, gaps=self.gaps))
        values = marked(values, [b[s] for b, s in zip(self.beyond, slab)], k)
        return values if k is None else values[(slice(None),) * k + (key[k],)]


def to_dask(waiting: Waiting, chunks: Any) -> Any:
    """The values as a Dask array; by default in chunks that match the tiles of its samples."""
    try:
        import dask.array as da
    except ImportError as error:
        raise MissingExtraError("lazy arrays need Dask; pip install 'elmfield[dist]'.") from error
    if chunks is None or chunks == {}:
        chunks = matching(waiting.of, waiting.shape)
    from_array: Any = da.from_array
    return from_array(waiting, chunks=chunks, asarray=False, fancy=False, name=False)


def matching(of: "OnGrids", shape: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of chunks of a grid that touch as few tiles of a field's samples as may be.

    Of an array of this shape: tiles, made as much longer or shorter as the grid is than the
    samples; all channels together.
    """
    boxes = of.blended.made_of
    k = of.channel_axis if len(shape) > len(of.domain.shape) else None
    coded = None if boxes is None else boxes.coded
    sizes = list(shape)
    if k is not None:
        del sizes[k]
    tile = [512] * len(sizes) if coded is None else list(coded.tiling.tile[:-1])
    found = [max(1, min(n, round(t * n / m))) for t, n, m in zip(tile, sizes, of.domain.shape)]
    if k is not None:
        found.insert(k, shape[k])
    return tuple(found)
