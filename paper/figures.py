"""Pictures that several scripts draw: a data set by every method; one typography for all."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from PIL import Image

from common import ITERATIVE, load

plt.rcParams.update({
    "font.size": 9, "axes.titlesize": 9, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "legend.fontsize": 8, "figure.dpi": 120, "savefig.dpi": 120,
})  # fmt: skip

COLOURS = {
    "SIREN": "#0b6e99", "FFN": "#d1495b", "GaussNet": "#3a7d44", "WIRE": "#8f5aa8",
    "hash grid": "#c98a1b", "ELM-INR": "#111111", "default": "#e4572e",
}  # fmt: skip
SHOWN = (*ITERATIVE, "hash grid, tuned", "ELM-INR", "default")
RGB = {8: (4, 2, 1), 12: (3, 2, 1)}
"""Red, green and blue of WorldView's 8 bands and of Sentinel-2's 12."""


def save(figure, path, most=900_000):
    """Write a picture and close it; in 256 colours where it would have more than `most` bytes."""
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    whole = Image.open(path).convert("RGB")
    whole.save(path, optimize=True)
    if path.stat().st_size > most:
        # Of Pillow's ways the one that leaves rare colours, a colour bar's for one, as they are.
        whole.quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


def shown(values, channels=None, limits=None):
    """Samples as a picture between 0 and 1: grey, or red, green and blue of a scene with bands."""
    if channels is not None:
        values = values[..., RGB.get(values.shape[-1], (0, 1, 2))]
    low, high = np.percentile(values, (0.5, 99.5), axis=(0, 1)) if limits is None else limits
    return np.clip((values - low) / np.where(high > low, high - low, 1), 0, 1), (low, high)


def comparison(run, name, channels=None, size=160):
    """Truth and every method recorded: a part of the picture, and the errors there.

    Nothing is drawn where samples of a method are not kept: what is there already shows more.
    """
    units = run.found()
    found = [(m, run.kept(f"{name}-{m}")) for m in SHOWN if f"{name}: {m}" in units]
    if not found or any(back is None for _, back in found):
        return
    truth = load(run, name)
    n0, n1 = truth.shape[:2]
    busy = _busiest(truth if channels is None else truth.mean(-1), min(size, n0, n1))
    part = tuple(slice(a, a + min(size, n0, n1)) for a in busy)
    picture, limits = shown(truth[part], channels)
    figure, axes = plt.subplots(
        2, len(found) + 1, figsize=(1.75 * (len(found) + 1), 3.9), layout="constrained"
    )
    axes[0, 0].imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes[0, 0].set_title("truth")
    span = float(np.ptp(truth))
    # Samples are kept in 16 bits: of an error below 1e-5 of the range nothing is left.
    look = {"cmap": "magma", "norm": LogNorm(1e-5, 0.1), "interpolation": "nearest"}
    for (method, back), above, below in zip(found, axes[0, 1:], axes[1, 1:]):
        above.imshow(
            shown(back[part], channels, limits)[0],
            cmap="gray",
            vmin=0,
            vmax=1,
            interpolation="nearest",
        )
        above.set_title(f"{method}\n{units[f'{name}: {method}']['result']['paper_psnr']:.1f} dB")
        off = np.abs(back[part] - truth[part]) / span
        off = off if channels is None else off.mean(-1)
        drawn = below.imshow(np.maximum(off, 1e-6), **look)
    for ax in axes.ravel():
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_visible(False)
    axes[1, 0].set_axis_off()
    bar = figure.colorbar(
        drawn, ax=axes[1, 0], location="left", fraction=0.2, pad=-0.35, extend="both"
    )
    bar.set_label("|error|, part of the range")
    axes[1, 0].text(0.62, 0.5, "black:\nno error\nabove 10⁻⁵", transform=axes[1, 0].transAxes,
                    ha="center", va="center", fontsize=8)  # fmt: skip
    save(figure, run.figure(f"images-{name}"))


def _busiest(grey, size):
    """Corner of the square with the most contrast, on a coarse grid."""
    step = max(size // 4, 1)
    corners = [(a, b) for a in range(0, grey.shape[0] - size + 1, step)
               for b in range(0, grey.shape[1] - size + 1, step)]  # fmt: skip
    return max(corners, key=lambda c: grey[c[0] : c[0] + size, c[1] : c[1] + size].std())
