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

picture = camera()[::2, ::2].astype(float)
regular = ef.Partition.regular(picture.shape, 32)
print(regular.n_regions, "regions, cells:", regular.n_cells)

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
# Regions of equal shape share :math:`H`. It is factored once, for all of them, and coordinates are
# orthonormal, so that nothing is lost to its condition number.

field = ef.fit(picture, settings)
first = field.samples()[:32, :32]
print("the same region:  ", np.sqrt(np.mean((first - picture[:32, :32]) ** 2)))
print("paper's PSNR:     ", ef.paper_psnr(picture, field.samples()), "dB")

# %%
# With as many neurons as samples a fit reproduces anything, noise included, and is useless between
# the samples. The library's default is accurate there too.

full = ef.paper(cell=32, width=1024)
print("at the samples, 1024 neurons:", ef.paper_psnr(picture, ef.fit(picture, full).samples()))
print("between, 1024 neurons:       ", ef.heldout_score(picture, full, border=16))
print("between, default:            ", ef.heldout_score(picture, ef.smooth(), border=16))

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

merged = ef.beam(picture, cell=16, regions=64)
for name, partition in {"regular": regular, "BEAM": merged}.items():
    beta = ef.barron_norm(picture, partition=partition)
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
# All options, and what they change: :doc:`/beam`. The mathematics, keyed to modules: :doc:`/method`.
# ``make paper`` repeats the paper's tables and figures: :doc:`/paper`.
