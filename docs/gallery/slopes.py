"""
Slopes of a surface
===================

Exact gradients and level lines, drawn four times as fine as the samples.
"""

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef

i, j = np.mgrid[0:40, 0:40] / 39
height = 500 * np.exp(-8 * ((i - 0.4) ** 2 + (j - 0.55) ** 2)) + 60 * np.sin(9 * i) * np.cos(7 * j)

field = ef.fit(height)
y = x = np.arange(0, 39.01, 0.25)
fine = field.grid(y, x)
places = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
down, right = np.moveaxis(field.gradient(places), -1, 0)
light = (1 - 0.05 * down - 0.05 * right) / np.sqrt(1 + 0.0025 * (down**2 + right**2))

figure, a = plt.subplots(figsize=(6, 5.5), layout="constrained")
a.imshow(light, cmap="gray", extent=(0, 39, 39, 0))
a.contour(x, y, fine, levels=np.arange(-50, 560, 50), cmap="viridis", linewidths=1)
far = slice(4, None, 12)
a.quiver(x[far], y[far], -right[far, far], down[far, far], color="tab:red", width=0.003)
a.set_title("level lines, and the way down")
