"""The paper's concept figure: its toy field, and the energies of regions of several partitions."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import elmfield as ef
from elmfield.partition import Partition
from elmfield.show.pictures import draw_energies

COLOURS = ("#8a8f98", "#0b6e99", "#d1495b", "#3a7d44")


def toy_field(n: int = 512) -> np.ndarray:
    """The paper's toy field ``sin(2π 4 x₁³) sin(π x₂)`` on n by n points of the unit square."""
    x = (np.arange(n) + 0.5) / n
    return np.sin(8 * np.pi * x**3)[:, None] * np.sin(np.pi * x)


def draw_spread(
    energies: Mapping[str, np.ndarray], axes: Axes | None = None, *, bins: int = 40
) -> Axes:
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
    """
    axes = plt.subplots(figsize=(5.0, 3.2), layout="constrained")[1] if axes is None else axes
    edges = np.linspace(0, max(float(np.max(e)) for e in energies.values()) * 1.001, bins + 1)
    for (name, beta), colour in zip(energies.items(), COLOURS):
        beta = np.asarray(beta)
        ratio, variation = beta.max() / np.median(beta), beta.std() / beta.mean()
        label = f"{name}: max / median {ratio:.1f}, variation {variation:.2f}"
        axes.hist(
            beta, edges.tolist(), color=colour, alpha=0.65, label=label, edgecolor="white", lw=0.3
        )
    axes.set_xlabel("energy β of a region", fontsize=9)
    axes.set_ylabel("regions", fontsize=9)
    axes.set_xlim(0, edges[-1])
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    return axes


def draw_balance(
    values: np.ndarray,
    partitions: Mapping[str, Partition],
    axes: Sequence[Axes] | None = None,
    **energy: Any,
) -> Sequence[Axes]:
    """Energies of several partitions of one array, side by side, and their histograms.

    The paper's concept figure, for a regular mesh and BEAM. Parameters as for
    :func:`elmfield.show.pictures.draw_energies`; `axes` are one per partition and one for the histograms; they come back.
    """
    if axes is None:
        n = len(partitions)
        figure = plt.figure(figsize=(4.2 * n, 6.4), layout="constrained")
        grid = figure.add_gridspec(2, n, height_ratios=(1.5, 1))
        axes = [*(figure.add_subplot(grid[0, j]) for j in range(n)), figure.add_subplot(grid[1, :])]
    if len(axes) != len(partitions) + 1:
        raise ValueError(
            f"`axes` must be one per partition and one more, {len(partitions) + 1}; got "
            f"{len(axes)}."
        )
    beta = {name: ef.barron_norm(values, partition=p, **energy) for name, p in partitions.items()}
    top = max(float(b.max()) for b in beta.values())
    for ax, (name, p) in zip(axes, partitions.items()):
        draw_energies(
            p, values, ax, limits=(0.0, top), title=f"{name}, N = {p.n_regions}", **energy
        )
    draw_spread(beta, axes[-1])
    return axes
