"""Pictures: partitions, energies, directions of regions; all return matplotlib axes.

Each function draws on `axes`, or on new ones, and returns them; saving and showing is the caller's.
Needs matplotlib, which is imported when first drawn with.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.typing import Array
from elmfield.field import Field
from elmfield.partition import Partition, fixed_axes, plane_of
from elmfield.partition.barron import barron_norm
from elmfield.show.drawing import border_lines, direction_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = "#ffd23f"
"""Borders of regions: seen on dark, bright and grey."""


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
    whole, partition = partition, plane_of(partition, at)
    axes = _new_axes() if axes is None else axes
    n0, n1 = partition.shape
    box = (-0.5, n1 - 0.5, n0 - 0.5, -0.5)
    if values is not None:
        picture = np.asarray(to_numpy(values) if is_array(values) else values)
        if channel_axis is not None:
            picture = np.moveaxis(picture, channel_axis, -1)
            low, high = np.nanmin(picture), np.nanmax(picture)
            picture = np.clip((picture - low) / ((high - low) or 1), 0, 1)
        d = len(whole.shape)
        if picture.shape[:d] != whole.shape:
            raise ValueError(
                f"`values` must have the partition's shape {whole.shape}; got {picture.shape}."
            )
        picture = picture[tuple(fixed.get(k, slice(None)) for k in range(d))]
        axes.imshow(picture, cmap=cmap, interpolation="nearest", extent=box)
    cut = "".join(f", axis {k} at {i}" for k, i in fixed.items())
    title = f"{whole.n_regions} regions{cut}" if title is None else title
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
    fixed = fixed_axes(partition.shape, at)
    axes = _new_axes() if axes is None else axes
    beta = barron_norm(values, partition=partition, **energy)
    rows, columns = (partition.borders(k) for k in range(len(partition.shape)) if k not in fixed)
    index = tuple(
        int(partition.cell_of[k][fixed[k]]) if k in fixed else slice(None)
        for k in range(len(partition.shape))
    )
    low, high = (0.0, float(beta.max())) if limits is None else limits
    mesh = axes.pcolormesh(
        columns, rows, beta[partition.labels[index]], cmap="viridis", vmin=low, vmax=high,
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
    axes: "Axes",
    lines: Sequence[Sequence[tuple[float, ...]]],
    box: tuple[float, float, float, float],
    colour: str,
    width: float,
    title: str | None,
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
    axes: Axes = _pyplot().subplots(figsize=(4.8, 4.8), layout="constrained")[1]
    return axes


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which is not installed; pip install 'elmfield[show]'."
        ) from error
    return pyplot
