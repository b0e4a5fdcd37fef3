"""The ablation: PSNR against the width m for several numbers of regions N, cameraman 512 x 512.

    python paper/ablation.py [--device cuda]

With and without Fourier features. Coordinates are nested in m, so one projection per N gives the
whole curve. Writes ``results/<device>/ablation.json`` and the paper's figure; a ring marks m = S,
as many neurons as samples of a region.
"""

from functools import partial

import numpy as np

import elmfield as ef
from common import at_hand, load, main
from elmfield._array.backend import to_device
from figures import plt, save
from measurement.records import kind

NAME = "cameraman-512"
CELLS = (16, 32, 64)
LARGE = 128
"""A cell whose S = 16384 neurons only a card can factor in reasonable time."""

INPUTS = {"Fourier features": 10, "raw coordinates": 0}
COLOURS = ("#0b6e99", "#3a7d44", "#d1495b", "#8f5aa8")


def cells(run):
    """Cells of the meshes."""
    return (4, 8) if run.toy else (*CELLS, LARGE) if run.profile == "full" else CELLS


def widest(cell):
    """The largest m: past saturation where that can be afforded, else up to it."""
    return min(4 * cell**2, max(4096, cell**2))


def curve(run, values, cell, frequencies):
    """PSNR at widths spaced evenly in their logarithm, S and half of it among them."""
    top, S = widest(cell), cell**2
    m = np.round(np.geomspace(min(8, top), top, 49)).astype(int)
    m = np.unique([*m, *(w for w in (S // 2, S) if w <= top)])
    place = values if kind(run.device) == "cpu" else to_device(values, run.device)
    settings = ef.paper(cell=cell, width=top, frequencies=frequencies)
    found = ef.psnr_by_width(place, settings, m)
    at = dict(zip(m.tolist(), found.paper_psnr.tolist()))
    return {
        "N": int(np.prod([-(-n // cell) for n in values.shape])),
        "S": S,
        "at_half": at.get(S // 2),
        "at_S": at.get(S),
        "widest": top,
        "at_widest": at[top],
        "widths": m,
        "paper_psnr": found.paper_psnr,
        "psnr": found.psnr,
    }


def title(cell, words, name=NAME):
    """A unit's name."""
    return f"{name}: cells of {cell}, {words}"


def compute(run):
    """One curve per number of regions and kind of input."""
    for name in at_hand(run, (NAME, "camera")):
        values = load(run, name)
        for cell in cells(run) if name == NAME else cells(run)[:2]:
            for words, frequencies in INPUTS.items():
                work = partial(curve, run, values, cell, frequencies)
                run.unit(title(cell, words, name), work, widest=widest(cell))


def draw(run):
    """Two panels: with Fourier features and without."""
    found = run.found()
    if not found:
        return
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.3), sharey=True, layout="constrained")
    for ax, words in zip(axes, INPUTS):
        for cell, colour in zip(cells(run), COLOURS):
            unit = found.get(title(cell, words))
            if unit is None:
                continue
            r = unit["result"]
            ax.plot(r["widths"], r["paper_psnr"], color=colour, lw=1.4, label=f"N = {r['N']}")
            if r["at_S"] is not None:
                ax.plot(r["S"], r["at_S"], "o", mfc="white", mec=colour, ms=6, zorder=3)
        ax.axhline(80, color="#999999", lw=0.7, ls=":")
        ax.set(xscale="log", xlabel="neurons per region m", title=words, ylim=(10, 86))
        ax.set_xticks(
            marks := [4**k for k in range(2, 8) if 4**k <= widest(cells(run)[-1])],
            [str(m) for m in marks],
        )
        ax.minorticks_off()
        ax.grid(color="#e6e6e6", lw=0.5)
    axes[0].set_ylabel("PSNR as the paper defines it, dB")
    axes[0].plot([], [], "o", mfc="white", mec="#555555", ms=6, ls="none", label="m = S")
    axes[0].legend(loc="upper left", bbox_to_anchor=(0, 0.93))
    top = widest(cells(run)[-1])
    axes[1].text(top, 80.5, "ceiling", ha="right", va="bottom", fontsize=8, color="#777777")
    save(figure, run.figure("ablation"))


if __name__ == "__main__":
    main(compute, draw, "ablation")
