"""The pictures of the site's first page.

    python docs/cards.py     writes docs/pictures/card-*.jpg

Needs matplotlib, scikit-image, nibabel and the data folder (paper/data.md). What is shown: a cat of
scikit-image (CC0), the 2 m temperature of NOAA's GFS (public domain), a brain scan that nibabel ships
(PDDL), the Navier-Stokes flow that `paper.research.datasets` computes, and file sizes from
benchmarks/results/sizes.json.
"""

import json
import sys
from pathlib import Path

import matplotlib
import nibabel
import numpy as np
from skimage.data import chelsea

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
matplotlib.use("agg")

import matplotlib.pyplot as plt

import elmfield as ef
from paper.research import datasets

FOLDER = ROOT / "docs" / "pictures"
INCHES = 6.4, 4.0


def card():
    """A figure and its only axes, which fill it."""
    figure = plt.figure(figsize=INCHES)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    return figure, axes


def halves(before, after, names, shape=(1, 2), **options):
    """A figure of two pictures, side by side unless `shape` says otherwise, with their names."""
    figure, axes = plt.subplots(*shape, figsize=INCHES)
    figure.subplots_adjust(0, 0, 1, 1, wspace=0.02, hspace=0.02)
    for a, picture, name in zip(axes, (before, after), names, strict=True):
        a.imshow(picture, aspect="auto", interpolation="nearest", **options)
        a.set_axis_off()
        box = {"facecolor": "black", "alpha": 0.55, "edgecolor": "none", "pad": 4}
        place = {"va": "top", "transform": a.transAxes, "fontsize": 13}
        a.text(0.03, 0.95, name, color="white", bbox=box, **place)
    return figure


def photograph():
    """A cat's eye as pixels and as a function."""
    cat = chelsea()[60:174:3, 102:231:3]
    field = ef.fit(cat, ef.oriented(), channel_axis=-1)
    rows, columns = np.arange(5.5, 36.5, 1 / 16), np.arange(12.5, 37.5, 1 / 16)
    large = np.clip(field.grid(rows, columns), 0, 255).astype("uint8")
    return halves(cat[6:37, 13:38], large, ("pixels", "the function"))


def world():
    """Temperature on the globe, with isotherms, from samples 2 degrees apart."""
    samples = datasets.load("era5-summer")[::8, ::8] - 273.15
    field = ef.fit(
        samples,
        dims=("latitude", "longitude"),
        coords=[90 - 2.0 * np.arange(samples.shape[0]), 2.0 * np.arange(samples.shape[1])],
        periodic="longitude",
    )
    x, y = np.meshgrid(np.linspace(-1.6, 1.6, 960), np.linspace(1, -1, 600))
    inside = np.hypot(x, y) < 0.97
    x, y = x[inside] / 0.97, y[inside] / 0.97
    z, tilt = np.sqrt(1 - x**2 - y**2), np.deg2rad(25)
    latitude = np.rad2deg(np.arcsin(y * np.cos(tilt) + z * np.sin(tilt)))
    longitude = np.rad2deg(np.arctan2(x, z * np.cos(tilt) - y * np.sin(tilt))) + 20
    values = np.full(inside.shape, np.nan)
    values[inside] = field(np.stack([latitude, longitude], axis=-1))
    figure, axes = card()
    figure.set_facecolor("#10151c")
    axes.imshow(values, cmap="RdYlBu_r", vmin=-18, vmax=45, extent=(-1.6, 1.6, -1, 1))
    axes.contour(
        values, np.arange(-60, 60, 8), colors="black", linewidths=0.5, origin="upper",
        extent=(-1.6, 1.6, -1, 1), linestyles="solid",
    )  # fmt: skip
    return figure


def scan():
    """A cut across the slices of a brain scan, as voxels and as a function."""
    path = Path(nibabel.__file__).parent / "tests" / "data" / "example4d.nii.gz"
    volume = nibabel.load(path).get_fdata()[..., 0]
    at = 52
    field = ef.fit(volume)
    across = np.arange(20, 108, 1 / 6)
    along = np.arange(-0.4, 23.4, 1 / 24)
    large = field.grid(across, [at], along)[:, 0].T[::-1]
    return halves(
        volume[20:108, at].T[::-1], large, ("voxels", "the function"), (2, 1), cmap="gray",
        vmin=0, vmax=np.quantile(volume, 0.999),
    )  # fmt: skip


def flow():
    """Vorticity from every second sample, and the lines along which its gradient points."""
    samples = datasets.load("navier-stokes")[::2, ::2, 60].astype(float)
    field = ef.fit(samples, periodic=[0, 1])
    rows, columns = np.arange(0, 40, 1 / 16), np.arange(0, 64, 1 / 16)
    figure, axes = card()
    axes.imshow(field.grid(rows, columns), cmap="RdBu_r", vmin=-14, vmax=14, aspect="auto",
                extent=(0, 64, 40, 0))  # fmt: skip
    grid = np.stack(np.meshgrid(np.arange(1, 40, 2.0), np.arange(1, 64, 2.0), indexing="ij"), -1)
    slope = field.gradient(grid.reshape(-1, 2)).reshape(*grid.shape)
    axes.quiver(grid[..., 1], grid[..., 0], slope[..., 1], slope[..., 0], angles="xy", color="0.15",
                width=0.0016)  # fmt: skip
    return figure


def sizes():
    """Bytes of one photograph in four files."""
    record = json.loads((ROOT / "benchmarks" / "results" / "sizes.json").read_text("utf-8"))
    row = record["files"]["rows"][0]
    bars = {
        f"{row['kind']}, without loss": row["file"],
        "elmfield, without loss": row["exact"],
        "JPEG at 40 dB": row["jpeg"],
        "elmfield at 40 dB": row["coded"],
    }
    figure, axes = plt.subplots(figsize=INCHES, layout="constrained")
    colours = ["#9aa5b1" if not name.startswith("elm") else "#2b7bba" for name in bars]
    axes.barh(list(bars), [n / 1e3 for n in bars.values()], color=colours)
    for place, n in enumerate(bars.values()):
        axes.text(n / 1e3 + 8, place, f"{n / 1e3:.0f} kB", va="center", fontsize=14)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * max(bars.values()) / 1e3)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0, labelsize=14)
    axes.spines[:].set_visible(False)
    axes.set_title(row["data"], fontsize=14)
    return figure


def main():
    """Draw every card; say how large the files are."""
    for draw in (photograph, world, scan, flow, sizes):
        path = FOLDER / f"card-{draw.__name__}.jpg"
        draw().savefig(path, dpi=100, pil_kwargs={"quality": 85, "optimize": True})
        plt.close("all")
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
