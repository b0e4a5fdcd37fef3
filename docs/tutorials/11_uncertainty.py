"""
How sure is a value?
====================

Stations measure a temperature at some places, with noise. Between them a map is a guess, better
where stations are near. A field says how good: ``std`` is the standard deviation of its values.
"""

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef


def truth(p):
    return 12 + 4 * np.sin(1.5 * p[..., 0]) * np.cos(p[..., 1]) - 0.8 * p[..., 0]


rng = np.random.default_rng(0)
stations = rng.uniform(0, 6, (250, 2))
stations = stations[np.hypot(*(stations - [4.2, 2.2]).T) > 1.1]  # a lake without stations
measured = truth(stations) + rng.normal(0, 0.3, len(stations))
field = ef.fit_points(stations, measured, bounds=([0, 0], [6, 6]), denoise=True)
print("at a point:", field([3.0, 3.0]).round(2), "+-", field.std([3.0, 3.0]).round(2))

# %%
# A map with its uncertainty beside it
# ------------------------------------

y = x = np.linspace(0, 6, 90)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for a, quantity in zip(axes, ("value", "std"), strict=True):
    shown = a.imshow(field.grid(y, x, quantity=quantity), origin="lower", extent=(0, 6, 0, 6))
    a.plot(*stations[:, ::-1].T, "k.", markersize=2)
    a.set_title(quantity)
    figure.colorbar(shown, ax=a)

# %%
# Is it right? Here the truth is known: 90 % of the errors should lie within 1.645 deviations. More
# do: these waves are smoother than any process that is assumed, so the field is surer than it says.

at = rng.uniform(0, 6, (2000, 2))
inside = np.abs(field(at) - truth(at)) < 1.645 * field.std(at)
print(f"inside 90 % intervals: {inside.mean():.2f}")

# %%
# Means, and what could have been
# -------------------------------
#
# The mean over an area is surer than a value in it, for errors average out; neighbouring values err
# alike, which ``covariance`` knows. Whatever is not linear has error bars through ``draw``: here the
# warmest place along a line.

mean = field.means([1, 3], [1, 3])[0, 0]
print(f"mean of an area: {mean:.2f} +- {field.means([1, 3], [1, 3], quantity='std')[0, 0]:.2f}")
line = np.stack([np.full(60, 2.0), np.linspace(0.2, 5.8, 60)], axis=-1)
warmest = field.draw(500, line).max(axis=1)
print(f"warmest on a line: {warmest.mean():.2f} +- {warmest.std():.2f}")

# %%
# Grids without noise
# -------------------
#
# A field through the samples of a grid is sure at samples, and less so between them and at edges:
# the amplitude is that of left-out samples nearby.

series = np.where(np.arange(60) < 30, 0.0, 3.0) + np.sin(np.arange(60) / 4)
step = ef.fit(series, dims=["t"])
plt.figure()
step.plot({"t": np.linspace(18, 42, 400)}, std=True)
