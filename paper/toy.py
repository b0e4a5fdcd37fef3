"""The toy field sin(2π 4 x₁³) sin(π x₂): regions' energies on a regular mesh and after BEAM.

    python paper/toy.py

Writes ``results/<device>/toy.json`` and the paper's concept figure. The field oscillates ever
faster along x₁, so equal cells have very unequal spectral Barron norms β.
"""

from functools import partial

import numpy as np

import elmfield as ef
from common import main
from figures import plt, save
from paper.research.concept import draw_balance, toy_field

MESHES = {64: (64, 16), 256: (32, 16), 1024: (16, 8)}
"""Regions of 512 x 512 samples: cells of the mesh, BEAM's atoms."""

OUTSIDES = ("zero", "mean")


def meshes(run):
    """Samples of the field, and cells by number of regions."""
    return (128, {16: (32, 8)}) if run.toy else (512, MESHES)


def both(values, coarse, fine, outside):
    """The regular mesh, and BEAM with as many regions."""
    mesh = ef.Partition.regular(values.shape, coarse)
    regions = mesh.n_regions
    made = ef.beam(values, cell=fine, regions=regions, outside=outside)
    return {"regular": mesh, "BEAM": made}


def spread(values, coarse, fine, outside):
    """How unequal the energies are, before and after."""
    result = {"cell": coarse, "atom": fine}
    for name, partition in both(values, coarse, fine, outside).items():
        beta = ef.barron_norm(values, partition=partition, outside=outside)
        result[f"{name}_max_over_median"] = float(beta.max() / np.median(beta))
        result[f"{name}_variation"] = float(beta.std() / beta.mean())
    return result


def compute(run):
    """Spread of energies for every number of regions, both conventions of the energy."""
    n, sizes = meshes(run)
    values = toy_field(n)
    for N, (coarse, fine) in sizes.items():
        for outside in OUTSIDES:
            work = partial(spread, values, coarse, fine, outside)
            run.unit(f"toy field: N = {N}, outside {outside}", work, samples=n)


def draw(run):
    """Energies of both partitions and their histograms, for the middle number of regions."""
    n, sizes = meshes(run)
    values = toy_field(n)
    coarse, fine = sizes[sorted(sizes)[len(sizes) // 2]]
    figure = plt.figure(figsize=(7.4, 5.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.6, 1))
    axes = [*(figure.add_subplot(grid[0, j]) for j in range(2)), figure.add_subplot(grid[1, :])]
    draw_balance(values, both(values, coarse, fine, "zero"), axes)
    for ax in axes[:2]:
        ax.set_title(ax.get_title(), fontsize=9)
        ax.set_xlabel("x₂")
        ax.set_ylabel("x₁, downwards")
    save(figure, run.figure("toy"))


if __name__ == "__main__":
    main(compute, draw, "toy")
