"""Pictures: partitions, energies, directions that regions believe in; matplotlib axes come back.

Each function draws on `axes`, or on new ones, and returns them; saving and showing is the caller's.
Needs matplotlib, which is imported when first drawn with.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.checks import whole as whole_number
from elmfield._array.typing import Array, Floats
from elmfield.field import Field, Sampled
from elmfield.partition import Partition, fixed_axes, plane_of
from elmfield.partition.beam.barron import barron_norm

LINE = "#ffd23f"
"""Borders of regions: seen on dark, bright and grey."""

COLOURS = ("#8a8f98", "#0b6e99", "#d1495b", "#3a7d44")


def draw_partition(
    partition: Partition,
    values: Array | None = None,
    axes: Any = None,
    *,
    at: Mapping[int, int] | None = None,
    channel_axis: int | None = None,
    colour: str = LINE,
    width: float = 0.8,
    cmap: str = "gray",
    title: str | None = None,
) -> Any:
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
        axes.imshow(
            picture, cmap=cmap, interpolation="nearest", extent=(-0.5, n1 - 0.5, n0 - 0.5, -0.5)
        )
    from matplotlib.collections import LineCollection

    axes.add_collection(
        LineCollection(borders(partition), colors=colour, linewidths=width, capstyle="projecting")
    )
    axes.set(xlim=(-0.5, n1 - 0.5), ylim=(n0 - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    regions = f"{whole.n_regions} regions"
    if fixed:
        regions += ", " + ", ".join(f"axis {k} at {i}" for k, i in fixed.items())
    axes.set_title(regions if title is None else title, fontsize=10, pad=6)
    return axes


def borders(partition: Partition) -> list[list[tuple[float, float]]]:
    """Lines between cells of different regions, and around the array, as pairs of (column, row)."""
    _two_axes(partition)
    rows, columns = (partition.borders(k) for k in (0, 1))
    labels = partition.labels
    lines = []
    for along in (0, 1):
        marks, ends = (rows, columns) if along == 0 else (columns, rows)
        grid = labels if along == 0 else labels.T
        differs = np.ones((grid.shape[0] + 1, grid.shape[1]), bool)
        differs[1:-1] = grid[1:] != grid[:-1]
        if partition.periodic[along]:
            differs[0] = differs[-1] = grid[0] != grid[-1]
        for i, j in zip(*np.nonzero(differs)):
            ends_of = ((ends[j], marks[i]), (ends[j + 1], marks[i]))
            lines.append([p if along == 0 else p[::-1] for p in ends_of])
    return [[(float(x), float(y)) for x, y in line] for line in lines]


def draw_energies(
    partition: Partition,
    values: Array,
    axes: Any = None,
    *,
    at: Mapping[int, int] | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    **energy: Any,
) -> Any:
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


def draw_spread(
    energies: Mapping[str, Floats], axes: Any = None, *, bins: int = 40, title: str | None = None
) -> Any:
    """Histograms of regions' energies on one scale; matplotlib axes.

    Parameters
    ----------
    energies : mapping
        Energies (N,) by name: a regular mesh's and BEAM's, say. Each name is completed by max /
        median and by the coefficient of variation.
    axes : matplotlib axes, optional
        Where to draw.
    bins : int
        Bars from 0 to the greatest energy.
    title : str, optional
        None by default.
    """
    axes = _new_axes((5.0, 3.2)) if axes is None else axes
    edges = np.linspace(0, max(float(np.max(e)) for e in energies.values()) * 1.001, bins + 1)
    for (name, beta), colour in zip(energies.items(), COLOURS):
        beta = np.asarray(beta)
        ratio, variation = beta.max() / np.median(beta), beta.std() / beta.mean()
        label = f"{name}: max / median {ratio:.1f}, variation {variation:.2f}"
        axes.hist(beta, edges, color=colour, alpha=0.65, label=label, edgecolor="white", lw=0.3)
    axes.set_xlabel("energy β of a region", fontsize=9)
    axes.set_ylabel("regions", fontsize=9)
    axes.set_xlim(0, edges[-1])
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    if title is not None:
        axes.set_title(title, fontsize=10)
    return axes


def draw_balance(
    values: Array,
    partitions: Mapping[str, Partition],
    axes: Sequence[Any] | None = None,
    **energy: Any,
) -> Any:
    """Energies of several partitions of one array, side by side, and their histograms.

    The paper's concept figure, for a regular mesh and BEAM. Parameters as for
    :func:`draw_energies`; `axes` are one per partition and one for the histograms; they come back.
    """
    if axes is None:
        pyplot = _pyplot()
        n = len(partitions)
        figure = pyplot.figure(figsize=(4.2 * n, 6.4), layout="constrained")
        grid = figure.add_gridspec(2, n, height_ratios=(1.5, 1))
        axes = [*(figure.add_subplot(grid[0, j]) for j in range(n)), figure.add_subplot(grid[1, :])]
    if len(axes) != len(partitions) + 1:
        raise ValueError(
            f"`axes` must be one per partition and one more, {len(partitions) + 1}; got "
            f"{len(axes)}."
        )
    beta = {name: barron_norm(values, partition=p, **energy) for name, p in partitions.items()}
    top = max(float(b.max()) for b in beta.values())
    for ax, (name, p) in zip(axes, partitions.items()):
        draw_energies(
            p, values, ax, limits=(0.0, top), title=f"{name}, N = {p.n_regions}", **energy
        )
    draw_spread(beta, axes[-1])
    return axes


def draw_directions(
    field: Field,
    axes: Any = None,
    *,
    region: int = 1,
    colour: str = LINE,
    width: float = 0.9,
    cmap: str = "gray",
    title: str | None = None,
) -> Any:
    """What regions believe, over the field: a line along which each is smooth; matplotlib axes.

    A line is as long as its region is sure: from nothing, where it believes in no direction, to the
    size of its cell.

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
    lines = directions(field, region)
    axes = _new_axes() if axes is None else axes
    shown = np.asarray(to_numpy(field.samples(missing="fill")))
    if field.channel_axis is not None:
        shown = np.moveaxis(shown, field.channel_axis, -1).mean(axis=-1)
    (top, left), (bottom, right) = field.domain.low, field.domain.high
    box = (left, right, bottom, top)
    axes.imshow(np.abs(shown) if field.is_complex else shown, cmap=cmap, extent=box)
    from matplotlib.collections import LineCollection

    segments = [[tuple(end[::-1]) for end in line] for line in lines]  # (column, row)
    axes.add_collection(LineCollection(segments, colors=colour, linewidths=width))
    axes.set(xlim=box[:2], ylim=box[2:], aspect="equal", xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    if title is not None:
        axes.set_title(title, fontsize=10, pad=6)
    return axes


def directions(field: Field, every: int = 1) -> Floats:
    """The lines of :func:`draw_directions`: two ends each, in index coordinates, (n, 2, 2).

    With weights p of members that are rough across n_k by a_k, the mean ``Σ p_k log a_k n_k n_kᵀ``,
    less its isotropic part, tells the direction and how sure the region is of it.
    """
    group = field.blended.groups[0]
    c = group.coefficients
    if not isinstance(c, Sampled) or len(field.shape) != 2:
        raise ValueError(
            "directions are those of a field of two axes fitted with oriented(...); got "
            f"{field!r} with settings {field.settings}."
        )
    part, whole = field.partition, whole_number("region", every)
    rows = part.labels[::whole, ::whole].reshape(-1)
    p = np.asarray(to_numpy(c.believed(rows)), np.float64)  # (n, K)
    n, strength = c.beliefs.family.directions, np.log(c.beliefs.family.strengths)
    tensor = np.einsum("gk,k,ki,kj->gij", p, strength, n, n)
    values, vectors = np.linalg.eigh(tensor)
    along = vectors[:, :, 0]  # least rough
    sure = (values[:, 1] - values[:, 0]) / max(float(strength.max()), 1e-12)
    edges = [0.5 * (b[1:] + b[:-1]) for b in (part.borders(0), part.borders(1))]
    cells = np.stack(np.meshgrid(*(e[::whole] for e in edges), indexing="ij"), axis=-1)
    half = 0.5 * whole * min(float(np.diff(b).min()) for b in part.edges)
    reach = along * (sure * half)[:, None]
    centres = cells.reshape(-1, 2)
    return np.stack([centres - reach, centres + reach], axis=1)


def toy_field(n: int = 512) -> Floats:
    """The paper's toy field ``sin(2π 4 x₁³) sin(π x₂)`` on n by n points of the unit square."""
    x = (np.arange(n) + 0.5) / n
    return np.sin(8 * np.pi * x**3)[:, None] * np.sin(np.pi * x)


def _two_axes(partition: Partition) -> None:
    if len(partition.shape) != 2:
        raise ValueError(
            f"only partitions of two-dimensional arrays can be drawn; got shape {partition.shape}. "
            "Draw a slice."
        )


def _new_axes(size: tuple[float, float] = (4.8, 4.8)) -> Any:
    return _pyplot().subplots(figsize=size, layout="constrained")[1]


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which is not installed; pip install 'elmfield[show]'."
        ) from error
    return pyplot
