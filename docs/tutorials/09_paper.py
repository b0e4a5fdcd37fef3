"""
The paper, step by step: ELM-INR and BEAM
=========================================

The method of `arXiv 2602.07603 <https://arxiv.org/abs/2602.07603>`_: cut the domain into cells, give
each a network whose hidden layer is random and frozen, and solve for its output weights. Then merge
cells until all are about equally hard (BEAM). This page goes through it with the library's own parts.
"""

# %%
# Cells
# -----

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera

import elmfield as ef

picture = camera().astype(float).reshape(256, 2, 256, 2).mean(axis=(1, 3))  # halved: 256 × 256
regular = ef.Partition.regular(picture.shape, 32)
print(regular)

# %%
# One region by hand
# ------------------
#
# The hidden layer maps local coordinates :math:`t` to features
# :math:`H(t) = \mathrm{relu}([\cos 2\pi tB, \sin 2\pi tB]\,W + b)` with random :math:`B, W, b`. The
# output weights are those of least squares, :math:`\alpha = H^+ y`.

settings = ef.paper(cell=32, width=256)
B, W, b = settings.network.parameters(2)
print("B", B.shape, "W", W.shape, "b", b.shape)

u = np.linspace(-1, 1, 32)  # local coordinates of the 32 samples of a cell
t = np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1).reshape(-1, 2)
phase = 2 * np.pi * t @ B
H = np.maximum(np.concatenate([np.cos(phase), np.sin(phase)], axis=-1) @ W + b, 0)
y = picture[:32, :32].reshape(-1)
alpha = np.linalg.lstsq(H, y)[0]
print("rms of one region:", np.sqrt(np.mean((H @ alpha - y) ** 2)))

# %%
# All regions at once
# -------------------
#
# Equation 1 of the paper gives every region a hidden layer of its own: ``layers="own"``. By default all
# regions share one draw, so that :math:`H` is factored once, for all of them. Means over seeds agree; the
# spread of one layer is larger than that of an average over 64.

field = ef.fit(picture, settings)
first = field.samples()[:32, :32]
print("the same region:  ", np.sqrt(np.mean((first - picture[:32, :32]) ** 2)))
print("paper's PSNR:     ", ef.paper_psnr(picture, field.samples()), "dB")
for layers in ("shared", "own"):
    one = ef.paper(cell=32, width=256, layers=layers)
    found = ef.over_seeds(picture, one, seeds=3)
    print(f"{layers:6} {found.mean:.2f} ± {found.spread:.2f} dB")

# %%
# With as many neurons as samples a fit reproduces anything, noise included, and is useless between
# the samples. The library's default is accurate there too.

full = ef.paper(cell=32, width=1024)
print("at the samples, 1024 neurons:", ef.paper_psnr(picture, ef.fit(picture, full).samples()))
print("between, 1024 neurons:       ", ef.heldout_score(picture, full))
print("between, default:            ", ef.heldout_score(picture, ef.smooth()))

# %%
# Width
# -----
#
# `elmfield.psnr_by_width` gives the whole curve from one projection.

curve = ef.psnr_by_width(picture, full)

# %%
# Balance
# -------
#
# Errors are largest where most happens. BEAM measures that by a spectral Barron norm,
# :math:`\beta = \sum_k |k|_1 |F(k)|`, and merges cells where it is small.

# The printed formula is that of the plain transform, ``normalisation="backward"``.

merged = ef.beam(picture, cell=16, regions=64, normalisation="backward")
print(merged)
for name, partition in {"regular": regular, "BEAM": merged}.items():
    beta = ef.barron_norm(picture, partition=partition, normalisation="backward")
    found = ef.fit(picture, ef.paper(width=256), partition=partition).samples()
    quality = ef.paper_psnr(picture, found)
    balance = beta.max() / beta.mean()
    print(f"{name:8} {partition.n_regions} regions, max/mean of β {balance:.2f}, {quality:.2f} dB")

# %%
# .

from elmfield.show.pictures import draw_partition

figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
axes[0].semilogx(curve.widths, curve.paper_psnr)
axes[0].set(xlabel="neurons a region", ylabel="paper's PSNR, dB", title="width")
draw_partition(regular, picture, axes[1], title="regular")
draw_partition(merged, picture, axes[2], title="BEAM")

# %%
# One row of each table
# ---------------------
#
# What ``make paper`` measures on this picture (the rows *camera* and *CC0 512 halved* of :doc:`/paper`), and
# on the flow that the library can make by itself, in a minute on two cores.

print("table of images, ELM-INR:    ", f"{ef.paper_psnr(picture, ef.fit(picture, full).samples()):.2f} dB")
for solver in ("qr", "normal"):
    single = ef.paper(cell=32, width=1024, solver=solver, dtype="float32")
    back = ef.fit(picture, single).samples()
    print(f"solver {solver:6} in float32:     ", f"{ef.paper_psnr(picture, back):.2f} dB")
for overlap in (0, 0.5, 1):
    blended = ef.paper(cell=32, width=1024, overlap=overlap)
    back = ef.fit(picture, blended).samples()
    print(f"overlap {overlap}:", f"{ef.paper_psnr(picture, back):.1f} dB")
for width in (256, 512):
    found = [
        ef.over_seeds(picture, ef.paper(width=width), 3, partition=p).mean for p in (regular, merged)
    ]
    print(f"BEAM, m = {width}: {found[0]:.2f} -> {found[1]:.2f} dB")
curves = {F: ef.psnr_by_width(camera().astype(float), ef.paper(cell=16, width=256, frequencies=F), [128, 256])
          for F in (10, 0)}  # fmt: skip
print("ablation, m = S/2 and S:", {F: c.paper_psnr.round(1).tolist() for F, c in curves.items()})

# %%
# All options, and what they change: :doc:`/beam`. The mathematics, keyed to modules: :doc:`/method`.
# ``make paper`` repeats the paper's tables and figures: :doc:`/paper`.
