"""
The function between the pixels
===============================

A cat's eye of 31 × 36 pixels, twelve times as large: the pixels, SciPy's cubic spline, the default, and
`elmfield.oriented`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import map_coordinates
from skimage.data import chelsea

import elmfield as ef

cat = chelsea()[60:174:3, 102:231:3]
y, x = np.arange(5.5, 36.5, 1 / 12), np.arange(5.5, 41.5, 1 / 12)
places = np.meshgrid(y, x, indexing="ij")

pictures = {
    "pixels": cat[6:37, 6:42],
    "cubic spline": np.dstack(
        [map_coordinates(c.astype(float), places) for c in cat.T.swapaxes(1, 2)]
    ),
    "fit(picture)": ef.fit(cat, channel_axis=-1).grid(y, x),
    "fit(picture, oriented())": ef.fit(cat, ef.oriented(), channel_axis=-1).grid(y, x),
}
figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
for a, (name, picture) in zip(axes, pictures.items(), strict=True):
    a.imshow(np.clip(picture, 0, 255).astype("uint8"))
    a.set_title(name, fontsize=11)
    a.set_axis_off()
