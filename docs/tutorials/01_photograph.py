"""
A photograph: resize, zoom, warp
================================

Colours are channels, a zoom is a grid, and a warp is any map from the new picture to the old one.
"""

# %%
# Colours
# -------
#
# ``channel_axis`` says which axis of an array holds colours. For files it is known:
# ``ef.fit("photo.png")``.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import astronaut

import elmfield as ef

photo = astronaut()[:256, 96:352]
field = ef.fit(photo, channel_axis=-1)
field([40.5, 120.25])


def show(pictures, titles):
    figure, axes = plt.subplots(
        1, len(pictures), figsize=(4 * len(pictures), 4.2), layout="constrained"
    )
    for a, picture, title in zip(axes, pictures, titles, strict=True):
        a.imshow(picture)
        a.set_title(title)
        a.set_axis_off()


# %%
# Resize
# ------
#
# ``dtype="uint8"`` rounds, and keeps to the limits of that type.

half = field.resize(scale=0.5, dtype="uint8")
double = field.resize(scale=2, dtype="uint8")
thumb = field.resize((32, 32), dtype="uint8")
print(half.shape, double.shape, thumb.shape)

# %%
# Fewer pixels are means over the area of each. ``antialias=False`` takes values at points instead,
# which is what makes fine texture flicker.

points = field.resize((32, 32), antialias=False, dtype="uint8")
show([photo, thumb, points], ["256 × 256", "32 × 32, means", "32 × 32, points"])

# %%
# Zoom
# ----
#
# ``window`` chooses a part, here by the default names of the axes. For edges that run across the grid, `elmfield.oriented` lets every small region choose along which direction it
# is smooth.

field.domain.dims

# %%
# .

window = {"axis0": (40, 80), "axis1": (110, 150)}
plain = field.resize(scale=12, window=window, dtype="uint8")
sharp = ef.fit(photo, ef.oriented(), channel_axis=-1)
edges = sharp.resize(scale=12, window=window, dtype="uint8")
show([photo[40:80, 110:150], plain, edges], ["40 × 40 pixels", "the default", "oriented()"])

# %%
# Warp
# ----
#
# `Field.warp` takes a matrix, displacements, an object of ``skimage.transform``, or a function that
# says where each pixel of the result lies in the field.

angle, middle = np.deg2rad(20), np.array([127.5, 127.5])
turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
turned = field.warp(np.column_stack([turn, middle - turn @ middle]), dtype="uint8", fill=0)


def swirl(p):
    offset = p - middle
    radius = np.linalg.norm(offset, axis=-1)
    t = 2.0 * np.exp(-radius / 60)
    c, s = np.cos(t), np.sin(t)
    return middle + np.stack(
        [c * offset[:, 0] - s * offset[:, 1], s * offset[:, 0] + c * offset[:, 1]], axis=-1
    )


swirled = field.warp(swirl, outside="nearest", dtype="uint8")
show([turned, swirled], ["turned by 20°", "swirled"])

# %%
# How good is it?
# ---------------
#
# A fit passes through its samples, so an error there says nothing. `elmfield.heldout_score` fits every
# second pixel and scores the others, in dB; higher is better.

gray = photo.mean(axis=-1)
for name, settings in {"default": ef.smooth(), "oriented": ef.oriented()}.items():
    print(f"{name:9} {ef.heldout_score(gray, settings, border=8):.2f} dB")
