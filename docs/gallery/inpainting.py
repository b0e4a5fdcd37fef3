"""
Removing text from a picture
============================

Pixels under the text are marked as missing, and the fit fills them in.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import chelsea

import elmfield as ef

photo = chelsea()[60:220, 60:300]
figure = plt.figure(figsize=(2.4, 1.6), dpi=100)
figure.text(0.5, 0.5, "elmfield\nelmfield", ha="center", va="center", fontsize=26, weight="bold")
figure.canvas.draw()
written = np.asarray(figure.canvas.buffer_rgba())[..., 0] < 128
plt.close(figure)

spoilt = np.where(written[..., None], 255, photo)
mended = ef.fit(photo, mask=written, channel_axis=-1).samples(dtype="uint8")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for a, picture, title in zip(axes, (spoilt, mended), ("written over", "filled in"), strict=True):
    a.imshow(picture)
    a.set_title(title)
    a.set_axis_off()
