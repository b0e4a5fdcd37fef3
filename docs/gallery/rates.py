"""
The same picture in fewer and fewer bytes
=========================================

``bytes=`` asks for a size; the field is the best that fits in it.
"""

import matplotlib.pyplot as plt
from skimage.data import astronaut

import elmfield as ef

photo = astronaut()[:160, 140:300]
figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
axes[0].imshow(photo)
axes[0].set_title(f"{photo.nbytes} bytes")
for a, n in zip(axes[1:], (12_000, 3_000, 1_000), strict=True):
    field = ef.fit(photo, ef.smooth(bytes=n), channel_axis=-1)
    found = field.samples(dtype="uint8")
    a.imshow(found)
    a.set_title(f"{field.n_bytes} bytes, {ef.psnr(photo, found):.1f} dB")
for a in axes:
    a.set_axis_off()
