"""
Scattered points
================

Stations, soundings, points of a scanner: samples that lie on no grid. `elmfield.fit_points` takes
their positions and values.
"""

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef


def truth(p):
    return np.sin(3 * p[..., 0]) * np.cos(2 * p[..., 1]) + 0.3 * p[..., 0]


rng = np.random.default_rng(0)
where = rng.uniform(0, 4, (800, 2))
field = ef.fit_points(where, truth(where))
field

# %%
# It is called like any other field, and has exact derivatives. The unit is that of the points.

at = np.array([[1.0, 2.0], [3.3, 0.7]])
print("values:  ", field(at), "truth", truth(at))
print("gradient:", field.gradient(at)[0])

# %%
# Compared with SciPy
# -------------------

from scipy.interpolate import griddata

y, x = (np.linspace(0.2, 3.8, 120) for _ in range(2))
grid = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
ours = field.grid(y, x)
cubic = griddata(where, truth(where), grid, method="cubic")

figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
axes[0].scatter(where[:, 1], where[:, 0], c=truth(where), s=6)
axes[0].set(title="800 samples", aspect="equal")
for a, (name, found) in zip(
    axes[1:], [("griddata, cubic", cubic), ("fit_points", ours)], strict=True
):
    error = np.abs(found - truth(grid))
    shown = a.imshow(np.log10(error + 1e-9), origin="lower", vmin=-7, vmax=-1)
    a.set_title(f"{name}: rms {np.sqrt((error**2).mean()):.1e}", fontsize=10)
    a.set_axis_off()
figure.colorbar(shown, ax=axes[1:], label="log₁₀ of the error")

# %%
# Noise
# -----
#
# ``denoise=True`` estimates how noisy the samples are and passes near them.

noisy = truth(where) + rng.normal(0, 0.1, len(where))
through = ef.fit_points(where, noisy).grid(y, x)
near = ef.fit_points(where, noisy, denoise=True).grid(y, x)
for name, found in {"through the samples": through, "denoise=True": near}.items():
    print(f"{name:20} rms {np.sqrt(((found - truth(grid)) ** 2).mean()):.3f}")

# %%
# Units and borders
# -----------------
#
# Where axes have different units, say how far samples are apart on each: ``spacing=(0.5, 100)``.
# ``bounds`` is the box on which the field is defined, by default that of the samples. On an axis that
# repeats, it is the period.

angle = rng.uniform(0, 2 * np.pi, (60, 1))
ring = ef.fit_points(
    angle, np.cos(angle[:, 0]), bounds=([0.0], [2 * np.pi]), dims=["angle"], periodic="angle"
)
ring([0.1]), ring([0.1 + 2 * np.pi]), np.cos(0.1)
