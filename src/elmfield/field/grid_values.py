"""A field on a grid of index coordinates: a quantity of it, block of rows by block of rows.

And at its samples, which come back as they were given where the field keeps them; and as a Dask
array, evaluated block by block when it is computed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from elmfield._array.autograd import Order
from elmfield._array.backend import as_dtype, device, move, namespace, take, to_numpy
from elmfield._array.checks import choice, is_mapping, shown, whole
from elmfield._array.progress import silent
from elmfield._array.running import capacity, with_less_memory
from elmfield._array.typing import Array, DType, Floats, Integers, Progress
from elmfield.errors import need
from elmfield.field.blend.means import means_over
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.tiles import Tiling, Totals
from elmfield.field.coordinates import output_positions
from elmfield.field.coordinates.output_positions import class_dtype, gone_at, shows_gaps, with_gaps
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.model import Model
from elmfield.field.point_values import QUANTITIES, derived
from elmfield.field.uncertainty.posterior import deviations
from elmfield.samples import EXACT

MEAN_MIN_COVER = 0.5
"""A mean is shown where at least this part of its box is not missing."""


@with_less_memory
def gridded(
    model: Model,
    x: Sequence[Floats],
    dtype: DType,
    quantity: str = "value",
    *,
    gaps: bool = False,
    boxes: Sequence[Floats | None] = (),
    progress: Progress = silent,
) -> Array:
    """A quantity on the grid of index coordinates `x`; channels where the input had them.

    Components of gradients and Hessians are the last axes; "samples" are what the field has in
    place of its samples, values or means, at their numbers.
    With `gaps`, what lies nearest to a missing sample is NaN. On axes with `boxes`, edges in index
    coordinates, values are means between them.
    """
    choice("quantity", quantity, (*QUANTITIES, "samples"))
    xp, C = namespace(model.offset), int(model.offset.shape[0])
    tail, d = tail_of(quantity, len(x)), len(x)
    is_value = quantity in ("value", "samples")
    dtype = class_dtype(model, gaps) if dtype is None and is_value else dtype
    across = math.prod(len(c) for c in x[1:]) * C * d ** (len(tail) or not is_value)
    rows = max(1, capacity(model.offset) // max(1, 4 * across))
    fill = None if not is_value else model.labels.fill_value
    out = None
    first, *others = x
    edged, *around = boxes or [None] * d
    if not all(map(len, x)):
        kind = model.joined(model.offset)
        sizes = (*map(len, x), model.n_channels, *tail)
        empty = xp.zeros(sizes, dtype=kind.dtype, device=device(kind))
        out, first = as_dtype(empty, dtype), np.empty(0)
    for i in range(0, len(first), rows):
        some = [first[i : i + rows], *others]
        edges = None if edged is None else edged[i : i + rows + 1]
        if quantity == "value" and any(b is not None for b in (edges, *around)):
            block, covered = means_over(model, [edges, *around], some, gaps)
            block = namespace(block).astype(block, model.dtype)
            gone = None if covered is None else covered < MEAN_MIN_COVER
        else:
            block = _block(model, some, quantity)
            gone = None
            if gaps:
                near = map(output_positions.nearest, model.domain.axes, some)
                gone = gone_at(model, list(near))
                gone = gone.reshape(*gone.shape, *(1,) * len(tail))
        block = as_dtype(block, dtype)
        block = block if gone is None else with_gaps(block, gone, fill)
        progress("render", min(i + rows, len(first)), len(first))
        if rows >= len(first):
            out = block
            break
        if out is None:  # rows go to their place: all of them twice would be too much
            whole = (len(first), *block.shape[1:])
            out = xp.empty(whole, dtype=block.dtype, device=device(block))
        out[i : i + rows, ...] = block
    assert out is not None
    return model.channels_back(out, len(tail))


def tail_of(quantity: str, d: int) -> tuple[int, ...]:
    """The shape of a quantity's components at a place: of a vector, a matrix or a number."""
    return {"gradient": (d,), "hessian": (d, d)}.get(quantity, ())


def at_samples(
    model: Model, x: Sequence[Integers], dtype: DType = None, *, gaps: bool = False
) -> Array:
    """The samples with these numbers on each axis, in any order, as they were given.

    Bit for bit and in their dtype, where the field passes through its samples and keeps them, or
    as they are decoded, where they were coded with loss; else its values there. With `gaps`, NaN
    where a sample was missing.
    """
    boxes = exact_samples(model)
    if boxes is None:
        return values_at_samples(model, x, dtype, gaps=gaps)
    spans = [np.unique(i, return_inverse=True) for i in x]
    block = move(boxes.read_grid([at for at, _ in spans]), model.offset)
    for k, (at, order) in enumerate(spans):
        if not np.array_equal(order, np.arange(len(at))):
            block = take(block, move(order, block), axis=k)
    block = model.joined(block, axis=block.ndim - 1)
    block = as_dtype(block, sample_dtype(model, gaps) if dtype is None else dtype)
    if gaps:
        block = with_gaps(block, gone_at(model, x), model.labels.fill_value)
    return model.channels_back(block)


def values_at_samples(
    model: Model, x: Sequence[Integers], dtype: DType = None, *, gaps: bool = False
) -> Array:
    """The function at samples; whole numbers, where these were coded with loss."""
    found = gridded(model, [n.astype(np.float64) for n in x], dtype, "samples", gaps=gaps)
    if dtype is None and not model.labels.classes and model.blended.gives_whole_numbers:
        found = namespace(found).round(found)
    return found


def coarse_means(model: Model, k: int) -> Array:
    """Means of blocks of 2^k samples on each axis: a quick look; at its end there may be fewer.

    Of samples that were coded with loss, as few bytes are decoded as tell them within that loss; a
    large file without loss keeps some, whole numbers rounded. Shape (ceil(n / 2^k), ...), with
    channels where the input had them; k = 0 gives the samples.
    """
    k = whole("k", k, 0)
    if k == 0:
        gaps = shows_gaps(model, None)
        return at_samples(model, own_samples(model.domain), gaps=gaps)
    k, f, x = min(k, 62), model.blended, own_samples(model.domain)
    own = Tiling.whole((*map(len, x), f.n_channels))
    if f.source_samples is not None and own.sizes[:-1] == model.shape:
        means = f.source_samples.coarse(k)
    else:  # of the function at its samples

        def read(slab: tuple[slice, ...]) -> Array:
            return to_numpy(f.at_samples([c[s].astype(np.float64) for c, s in zip(x, slab)]))

        means = Totals.of(own, k, read).means()
    means = move(means, model.offset)
    xp, shape = namespace(means), means.shape[:-1]
    flat = model.finish(xp.reshape(means, (-1, means.shape[-1])), True)
    return model.channels_back(xp.reshape(flat, (*shape, flat.shape[-1])))


def exact_samples(model: Model) -> SampleBoxes | None:
    """The samples that a field gives back as they are kept; None where it gives its values."""
    is_changed = model.labels.alpha is not None or model.labels.classes
    return None if is_changed else model.blended.exact


def sample_dtype(model: Model, gaps: bool) -> DType:
    """The dtype of a field's samples as it gives them back: the caller's, if it can say gaps."""
    boxes, own = exact_samples(model), model.input_dtype
    if (kind := class_dtype(model, gaps)) is not None:
        return getattr(namespace(model.offset), kind)
    if boxes is None or boxes.is_lossy or EXACT.get(own) != boxes.kind or gaps:
        return model.dtype
    return getattr(namespace(model.offset), own)


def _block(model: Model, x: list[Floats], quantity: str) -> Array:
    """A quantity on a grid of index coordinates, (p_1, ..., p_d, C, ...)."""
    if quantity == "std":
        return deviations(model, model.posterior.on_grid(x))
    own, xp, d = model.blended, namespace(model.offset), len(x)

    def partials(orders: list[Order]) -> list[Array]:
        found = [own.at_samples(x)] if quantity == "samples" else own.partials_on_grid(x, orders)
        return [xp.reshape(f, (-1, *f.shape[d:])) for f in found]

    found = derived(model, "value" if quantity == "samples" else quantity, partials)
    return xp.reshape(found, (*map(len, x), *found.shape[1:]))


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

    model: Model = field(repr=False)
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
        if kind is None and self.quantity == "value":
            own = sample_dtype if self._gives_samples else class_dtype
            kind = own(self.model, self.gaps)
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
            values = output_positions.mark_outside(
                values, [b[s] for b, s in zip(self.beyond, slab)], k
            )
        whole = [slice(None) if j != k else s for j, s in enumerate(head)]
        return values[(*whole, *key[len(head) :])]


def to_dask(lazy: LazyGrid, chunks: Array) -> Array:
    """The values as a Dask array; by default in chunks that match the tiles of its samples."""
    da = need("dask.array", "dist", "a lazy array")
    if chunks is None or (is_mapping(chunks) and not chunks):
        n = lazy.ndim - len(lazy.tail)
        chunks = (*matching(lazy.model, lazy.shape[:n]), *lazy.tail)
    try:
        chunks = da.core.normalize_chunks(chunks, lazy.shape, dtype=lazy.dtype)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise ValueError(
            f"`chunks` must be what dask.array takes for shape {lazy.shape}; got "
            f"{shown(chunks)}: {error}"
        ) from error
    return da.from_array(lazy, chunks=chunks, asarray=False, fancy=False, name=False)


def matching(model: Model, shape: tuple[int, ...]) -> tuple[int, ...]:
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
