"""
Means, blur, laws: observations that are not samples
====================================================

`elmfield.fit_observations` makes a field of whatever is linear in it. Five small cases; the page
:doc:`observations </observations>` lists the rows and says when other tools are better.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef
from elmfield import observe as ob

rng = np.random.default_rng(0)

# %%
# Monthly means to daily values
# -----------------------------
# The field's means over months are the given ones, to rounding.

edges = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31.0])
means = [0.9, 1.7, 5.2, 9.0, 13.9, 17.0, 19.1, 18.8, 14.8, 9.9, 4.9, 1.9]
year = ef.fit_observations([ob.means(edges[:-1], edges[1:], means)], spacing=1, dims=("day",))
kept = [year.integral([a], [b]) / (b - a) for a, b in pairwise(edges)]
print("largest difference:", np.abs(np.subtract(kept, means)).max())

days = np.arange(365) + 0.5
plt.stairs(means, edges, label="means")
plt.plot(days, year(days[:, None]), label="field")
plt.legend()

# %%
# Sparse sensors and a known equation
# -----------------------------------
# 40 noisy sensors of something that moves at speed 0.7, without and with that knowledge.


def moving(p):
    at = p[:, 0] - 0.7 * p[:, 1]
    return np.sin(6 * at) + np.cos(17 * at)


sensors, inside, test = rng.random((40, 2)), rng.random((300, 2)), rng.random((500, 2))
seen = ob.values(sensors, moving(sensors) + 0.1 * rng.standard_normal(40))
law = ob.equation(inside, {(0, 1): 1, (1, 0): 0.7})
for rows in ([seen], [seen, law]):
    field = ef.fit_observations(rows, bounds=((0, 0), (1, 1)), shape=(20, 20), dims=("x", "t"))
    print(len(rows), "observations: error", np.sqrt(np.mean((field(test) - moving(test)) ** 2)))

# %%
# Two blurred, shifted pictures into a sharp one
# ----------------------------------------------
# With the deviation of each sample.

i, j = np.indices((48, 48))
scene = 100.0 * ((i - 22) ** 2 + (j - 26) ** 2 < 150) + 40.0 * (np.abs(i - j) < 3)
rows = []
for shift in (0.0, 0.5):
    at = np.stack([i[4:-4, 4:-4], j[4:-4, 4:-4]], -1).reshape(-1, 2) + shift
    o = np.arange(-4, 5)
    w = np.exp(-(o**2) / 2)
    blur = ef.fit(scene, ef.smooth(order=1.5))
    y = sum(
        a * b * blur(at + np.array([p, q]), outside="nearest")
        for p, a in zip(o, w / w.sum())
        for q, b in zip(o, w / w.sum())
    )
    noisy = y + rng.standard_normal(len(at))
    rows.append(ob.blurred(at, noisy, psf=ob.gaussian(1.0, step=1.0), noise=1.0))
sharp = ef.fit_observations(rows, shape=scene.shape)
spread = sharp.resize(scene.shape, quantity="std")
figure, axes = plt.subplots(1, 3, figsize=(9, 3))
for axis, picture in zip(axes, (noisy.reshape(40, 40), sharp.samples(), spread)):
    axis.imshow(picture)

# %%
# Stations and a forecast
# -----------------------
# The forecast is too warm around one place. Stations there correct it; far from them it stays.

truth = 10 * np.sin(i / 9) * np.cos(j / 7)
forecast = ef.fit(truth + 3 * np.exp(-((i - 12) ** 2 + (j - 12) ** 2) / 60), ef.smooth(order=2.0))
stations = rng.integers(0, 25, (80, 2))
measured = truth[tuple(stations.T)] + 0.3 * rng.standard_normal(80)
analysis = ef.fit_observations(
    [ob.values(stations.astype(float), measured, noise=0.3)], background=forecast
)
for name, field in (("forecast", forecast), ("analysis", analysis)):
    print(name, "rms error", np.sqrt(np.mean((field.samples() - truth) ** 2)))

# %%
# Tomography with few views
# -------------------------
# 12 views of smooth blobs. For flat parts total variation is the better prior.

n, start, end = 40, [], []
body = 2 * np.exp(-((i - 15) ** 2 + (j - 20) ** 2) / 40) + np.exp(
    -((i - 26) ** 2 + (j - 14) ** 2) / 20
)
body = body[:n, :n]
for angle in np.pi * np.arange(12) / 12:
    across, along = (
        np.array([np.cos(angle), np.sin(angle)]),
        np.array([-np.sin(angle), np.cos(angle)]),
    )
    for t in np.arange(-17.0, 18.0):
        reach = np.sqrt(19.0**2 - t**2)
        start.append(19.5 + t * across - reach * along)
        end.append(19.5 + t * across + reach * along)
start, end = np.array(start), np.array(end)
s = (np.arange(200) + 0.5) / 200
path = start[:, None] + (end - start)[:, None] * s[:, None]
p = ef.fit(body)(path).mean(axis=1) * np.linalg.norm(end - start, axis=1)
p = p + 0.1 * rng.standard_normal(len(p))
found = ef.fit_observations([ob.lines(start, end, p)], shape=(n, n), positive=True)
print("rms error", np.sqrt(np.mean((found.samples() - body) ** 2)), "of", body.max())
