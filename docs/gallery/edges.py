"""
Edges that run across the grid
==============================

`elmfield.oriented` lets every small region choose along which direction it is smooth.
"""

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef


def star(y, x):
    angle, radius = np.arctan2(y - 24, x - 24), np.hypot(y - 24, x - 24)
    return np.tanh(1.2 * (14 + 6 * np.cos(7 * angle) - radius))


samples = star(*np.mgrid[0:49, 0:49])
u = np.arange(8, 41, 1 / 8)
truth = star(*np.meshgrid(u, u, indexing="ij"))

figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
axes[0].imshow(samples[8:41, 8:41], cmap="gray", vmin=-1, vmax=1)
axes[0].set_title("samples")
for a, (name, settings) in zip(
    axes[1:], {"the default": ef.smooth(), "oriented()": ef.oriented()}.items(), strict=True
):
    found = ef.fit(samples, settings).grid(u, u)
    a.imshow(found, cmap="gray", vmin=-1, vmax=1)
    a.set_title(f"{name}: {ef.psnr(truth, found):.1f} dB")
for a in axes:
    a.set_axis_off()
