"""
A wave on the globe
===================

A field on the sphere, drawn on a globe by evaluating it at every pixel.
"""

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef

latitude, longitude = np.linspace(90, -90, 46), np.arange(0, 360, 4.0)
phi, lam = np.deg2rad(latitude)[:, None], np.deg2rad(longitude)
height = np.cos(phi) ** 4 * np.cos(4 * lam) + 0.2 * np.sin(phi)
field = ef.fit(
    height,
    dims=("latitude", "longitude"),
    coords={"latitude": latitude, "longitude": longitude},
    periodic="longitude",
)
earth = ef.sphere(field)

# Where each pixel of an orthographic view from 35° north lies on the sphere.
v, u = np.meshgrid(np.linspace(1, -1, 300), np.linspace(-1, 1, 300), indexing="ij")
seen = u**2 + v**2 < 1
w, tilt = np.sqrt(np.clip(1 - u**2 - v**2, 0, None)), np.deg2rad(35)
z = v * np.cos(tilt) + w * np.sin(tilt)
north = np.rad2deg(np.arcsin(np.clip(z, -1, 1)))
east = np.rad2deg(np.arctan2(u, w * np.cos(tilt) - v * np.sin(tilt))) % 360
points = np.stack([north, east], axis=-1)[seen]

figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for a, values, title in (
    (axes[0], earth(points), "the field"),
    (axes[1], np.linalg.norm(earth.gradient(points), axis=-1), "its slope, per metre"),
):
    globe = np.full(u.shape, np.nan)
    globe[seen] = values
    a.imshow(globe, cmap="viridis")
    a.set_title(title)
    a.set_axis_off()
