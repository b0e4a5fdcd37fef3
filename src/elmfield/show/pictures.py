"""Pictures: colours for numbers, borders and directions of regions; drawings with matplotlib.

What begins with `draw_` and takes `axes` draws on those, or on new ones, and returns them; saving
and showing is the caller's. It needs matplotlib, which is imported when first drawn with. The rest
are arrays of arrays; no file is opened and no drawing library is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.checks import choice, whole, wrong
from elmfield._array.typing import Array, Floats
from elmfield.errors import need
from elmfield.field import Field
from elmfield.field.coefficients.from_samples import FromSamples
from elmfield.partition import Partition
from elmfield.partition.cells import fixed_axes, plane_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lines = Sequence[Sequence[tuple[float, ...]]]

LINE = "#ffd23f"
"""Borders of regions: seen on dark, bright and grey."""

_STOPS = {
    "grey": "000000 ffffff",
    "viridis": "440154 482878 3e4a89 31688e 26828e 1f9e89 35b779 6dcd59 b4de2c fde725",
    "error": "000004 1b0c41 4a0c6b 781c6d a52c60 cf4446 ed6925 fb9b06 f7d13d fcffa4",
    "magma": "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
    "cividis": "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
    "balance": "053061 2065ab 4393c3 90c4dd d1e5f0 f7f6f6 fddbc7 f3a481 d6604d b1182b 67001f",
    "phase": "e2d9e2 b3c6ce 7ba1c2 6276ba 5e43a5 4e186f 2f1436 581647 8e2c50 b25652 c6896c d4bcac "
    "e2d9e2",
}
MAPS = {name: [tuple(bytes.fromhex(c)) for c in text.split()] for name, text in _STOPS.items()}
"""Colours from low to high; between them, straight lines. All are matplotlib's at a few places:
"error" is inferno, "balance" RdBu from blue to red, for what has a sign, "phase" twilight, for what
goes round."""


def colourise(
    values: Array, colours: str = "viridis", low: float | None = None, high: float | None = None
) -> Array:
    """An RGB picture (H, W, 3), uint8, of numbers (H, W); what is not finite is left grey."""
    choice("colours", colours, tuple(MAPS))
    values = np.asarray(np.abs(values) if np.iscomplexobj(values) else values, np.float64)
    finite = np.isfinite(values)
    low = float(values[finite].min(initial=np.inf)) if low is None else low
    high = float(values[finite].max(initial=-np.inf)) if high is None else high
    span = high - low if high > low else 1.0
    t = np.clip((np.where(finite, values, low) - low) / span, 0, 1)
    stops = np.asarray(MAPS[colours], np.float64)
    place = np.linspace(0, 1, len(stops))
    rgb = np.stack([np.interp(t, place, stops[:, k]) for k in range(3)], axis=-1)
    rgb[~finite] = 128
    return np.asarray(np.round(rgb), np.uint8)


def to_plane(values: Array, channel_axis: int | None, combine: Callable[..., Array]) -> Array:
    """One picture's worth of numbers (H, W) of an array of any shape.

    Channels are combined; of more than two axes the middle of the others is shown, of one axis a
    thin strip.
    """
    if channel_axis is not None:
        values = combine(values, axis=channel_axis)
    while values.ndim > 2:
        k = int(np.argmin(values.shape))
        values = np.take(values, values.shape[k] // 2, axis=k)
    if values.ndim == 1:
        values = np.repeat(values[None, :], max(1, min(64, len(values) // 4)), axis=0)
    return values


def draw_regions(rgb: Array, partition: Partition) -> Array:
    """A picture (H, W, 3) with the borders between a partition's regions drawn in."""
    cells = (c[:n] for c, n in zip(partition.cell_of, partition.shape))
    label = np.pad(partition.labels[np.ix_(*cells)], ((1, 0), (1, 0)), "edge")
    out = rgb.copy()
    out[first_pixels(label)] = (255, 80, 60)
    return out


def first_pixels(label: Array) -> Array:
    """True on the first pixel of a region along rows or columns; one more of each enters."""
    inner = label[1:, 1:]
    return np.asarray((inner != label[:-1, 1:]) | (inner != label[1:, :-1]))


def border_lines(partition: Partition) -> list[list[tuple[float, float]]]:
    """Lines between cells of different regions, and around the array, as pairs of (column, row)."""
    lines = []
    for along in (0, 1):
        marks, ends = partition.borders(along), partition.borders(1 - along)
        grid = partition.labels if along == 0 else partition.labels.T
        differs = np.ones((grid.shape[0] + 1, grid.shape[1]), bool)
        differs[1:-1] = grid[1:] != grid[:-1]
        if partition.periodic[along]:
            differs[0] = differs[-1] = grid[0] != grid[-1]
        for i, j in zip(*np.nonzero(differs)):
            points = [(float(end), float(marks[i])) for end in ends[j : j + 2]]
            lines.append([p if along == 0 else p[::-1] for p in points])
    return lines


def direction_lines(field: Field, every: int = 1) -> Floats:
    """The lines of :func:`draw_directions`: two ends each, in index coordinates, (n, 2, 2).

    With weights p of members that are rough across n_k by a_k, the mean ``Σ p_k log a_k n_k n_kᵀ``,
    less its isotropic part, tells the direction and how sure the region is of it.
    """
    c = field.model.blended.groups[0].coefficients
    if len(field.shape) != 2 or not isinstance(c, FromSamples) or c.beliefs is None:
        told = "directions are those of a field of two axes fitted with oriented(...)"
        raise ValueError(f"{told}; got {field!r} with settings {field.settings}.")
    part, every = field.partition, whole("region", every)
    rows = part.labels[::every, ::every].reshape(-1)
    p = np.asarray(to_numpy(c.energy_weights(rows)), np.float64)  # (n, K)
    n, strength = c.beliefs.family.directions, np.log(c.beliefs.family.strengths)
    tensor = np.einsum("gk,k,ki,kj->gij", p, strength, n, n)
    values, vectors = np.linalg.eigh(tensor)
    along = vectors[:, :, 0]  # least rough
    sure = (values[:, 1] - values[:, 0]) / max(float(strength.max()), 1e-12)
    edges = [0.5 * (b[1:] + b[:-1]) for b in (part.borders(0), part.borders(1))]
    cells = np.stack(np.meshgrid(*(e[::every] for e in edges), indexing="ij"), axis=-1)
    half = 0.5 * every * min(float(np.diff(b).min()) for b in part.edges)
    reach = along * (sure * half)[:, None]
    centres = cells.reshape(-1, 2)
    return np.stack([centres - reach, centres + reach], axis=1)


# --- on axes of matplotlib ------------------------------------------------------------------------


def draw_partition(
    partition: Partition,
    values: Array | None = None,
    axes: "Axes | None" = None,
    *,
    at: Mapping[int, int] | None = None,
    channel_axis: int | None = None,
    colour: str = LINE,
    width: float = 0.8,
    cmap: str = "gray",
    title: str | None = None,
) -> "Axes":
    """The regions' borders over the samples; matplotlib axes.

    Parameters
    ----------
    partition : Partition
        Of an array with two axes or more.
    values : array, optional
        The samples to draw under it: grey, or three channels as red, green and blue.
    axes : matplotlib axes, optional
        Where to draw; new ones by default.
    at : mapping, optional
        Of a volume: the slice to draw, as ``{axis: sample}`` for all axes but two; by default the
        middle of the shortest.
    channel_axis : int, optional
        Of `values`.
    colour, width : optional
        Of the borders.
    cmap : str
        Colour map of grey samples.
    title : str, optional
        By default the number of regions.

    Notes
    -----
    Between two cells of one region no line is drawn. On a periodic axis a region that goes across
    the end is open there.
    """
    fixed = fixed_axes(partition.shape, at)
    own, partition = partition, plane_of(partition, at)
    axes = _new_axes() if axes is None else axes
    n0, n1 = partition.shape
    box = (-0.5, n1 - 0.5, n0 - 0.5, -0.5)
    if values is not None:
        picture = np.asarray(to_numpy(values) if is_array(values) else values)
        if channel_axis is not None:
            picture = np.moveaxis(picture, channel_axis, -1)
            low, high = np.nanmin(picture), np.nanmax(picture)
            picture = np.clip((picture - low) / ((high - low) or 1), 0, 1)
        d = len(own.shape)
        if picture.shape[:d] != own.shape:
            raise wrong("values", f"have the partition's shape {own.shape}", picture.shape)
        picture = picture[tuple(fixed.get(k, slice(None)) for k in range(d))]
        axes.imshow(picture, cmap=cmap, interpolation="nearest", extent=box)
    cut = "".join(f", axis {k} at {i}" for k, i in fixed.items())
    title = f"{own.n_regions} regions{cut}" if title is None else title
    _draw_lines(axes, border_lines(partition), box, colour, width, title)
    return axes


def draw_energies(
    partition: Partition,
    values: Array,
    axes: "Axes | None" = None,
    *,
    at: Mapping[int, int] | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    **energy: Any,
) -> "Axes":
    """Every region in the colour of its energy β; matplotlib axes with a colour bar.

    Parameters
    ----------
    partition, values, at
        As for :func:`draw_partition`; energies are those of the whole regions.
    axes : matplotlib axes, optional
        Where to draw.
    limits : pair of float, optional
        Energies at the ends of the colour map, to compare pictures.
    title : str, optional
        By default the number of regions.
    **energy
        Options of :func:`barron_norm`.
    """
    from elmfield.partition.barron import barron_norm  # scipy's transforms take 0.1 s

    fixed = fixed_axes(partition.shape, at)
    axes = _new_axes() if axes is None else axes
    beta = barron_norm(values, partition=partition, **energy)
    rows, columns = (partition.borders(k) for k in range(len(partition.shape)) if k not in fixed)
    labels = partition.labels
    for k in sorted(fixed, reverse=True):
        labels = labels.take(partition.cell_of[k][fixed[k]], axis=k)
    low, high = (0.0, float(beta.max())) if limits is None else limits
    mesh = axes.pcolormesh(
        columns, rows, beta[labels], cmap="viridis", vmin=low, vmax=high,
        rasterized=True,
    )  # fmt: skip
    draw_partition(partition, axes=axes, at=at, colour="white", width=0.4, title=title)
    bar = axes.figure.colorbar(mesh, ax=axes, fraction=0.046, pad=0.03)
    bar.set_label("energy β", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    return axes


def draw_directions(
    field: Field,
    axes: "Axes | None" = None,
    *,
    region: int = 1,
    colour: str = LINE,
    width: float = 0.9,
    cmap: str = "gray",
    title: str | None = None,
) -> "Axes":
    """The direction along which each region is smooth, as a line over the field; matplotlib axes.

    A line is the longer the more certain the direction: from nothing, where none was chosen, to
    the size of its cell.

    Parameters
    ----------
    field : Field
        Of a two-dimensional array, fitted with ``oriented(...)``.
    axes : matplotlib axes, optional
        Where to draw; new ones by default.
    region : int
        Draw every so many regions along each axis.
    colour, width : optional
        Of the lines.
    cmap : str
        Colour map of the samples under them.
    title : str, optional
        None by default.
    """
    lines = direction_lines(field, region)
    axes = _new_axes() if axes is None else axes
    shown = np.asarray(to_numpy(field.samples(missing="fill")))
    if field.model.channel_axis is not None:
        shown = np.moveaxis(shown, field.model.channel_axis, -1).mean(axis=-1)
    (top, left), (bottom, right) = field.domain.low, field.domain.high
    box = (left, right, bottom, top)
    axes.imshow(np.abs(shown) if field.model.is_complex else shown, cmap=cmap, extent=box)
    segments = [[tuple(end[::-1]) for end in line] for line in lines]  # (column, row)
    _draw_lines(axes, segments, box, colour, width, title)
    return axes


def _draw_lines(
    axes: "Axes", lines: Lines, box: Sequence[float], colour: str, width: float, title: str | None
) -> None:
    """Draw lines in a box (left, right, bottom, top) that fills axes without frame and ticks."""
    from matplotlib.collections import LineCollection

    style = LineCollection(lines, colors=colour, linewidths=width, capstyle="projecting")
    axes.add_collection(style)
    axes.set(xlim=box[:2], ylim=box[2:], aspect="equal", xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    if title is not None:
        axes.set_title(title, fontsize=10, pad=6)


def _new_axes() -> "Axes":
    pyplot = need("matplotlib.pyplot", "show", "a picture")
    axes: Axes = pyplot.subplots(figsize=(4.8, 4.8), layout="constrained")[1]
    return axes
