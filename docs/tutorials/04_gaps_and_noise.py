"""
Gaps and noise
==============

Samples may be missing or noisy. The fit takes care of both.
"""

# %%
# Gaps
# ----
#
# A mask is True where a sample is missing, as in ``numpy.ma``; NaN means the same. Gaps of a plain
# array are filled in.

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import griddata
from skimage.data import camera

import elmfield as ef

rng = np.random.default_rng(0)
picture = camera()[60:188, 190:318].astype(float)
gaps = rng.random(picture.shape) < 0.7
gaps[40:52, 80:92] = True  # and a hole

filled = ef.fit(picture, mask=gaps).samples()

places = np.argwhere(~gaps)
linear = griddata(places, picture[~gaps], tuple(np.indices(picture.shape)), method="linear")
nearest = griddata(places, picture[~gaps], tuple(np.indices(picture.shape)), method="nearest")
linear = np.where(np.isnan(linear), nearest, linear)


def show(pictures, titles):
    figure, axes = plt.subplots(
        1, len(pictures), figsize=(3.2 * len(pictures), 3.5), layout="constrained"
    )
    for a, shown, title in zip(axes, pictures, titles, strict=True):
        a.imshow(shown, cmap="gray", vmin=0, vmax=255)
        a.set_title(title, fontsize=10)
        a.set_axis_off()


def quality(found):
    return ef.psnr(picture[gaps], found[gaps])


show(
    [np.where(gaps, 0, picture), linear, filled, picture],
    [
        f"{gaps.mean():.0%} missing",
        f"griddata, linear: {quality(linear):.1f} dB",
        f"elmfield: {quality(filled):.1f} dB",
        "the truth",
    ],
)

# %%
# The decibels are of the missing pixels. Pixels that were there are kept:

np.abs(filled - picture)[~gaps].max()

# %%
# Gaps that mean something, as land in an ocean model, stay gaps with ``missing="nan"``. That is
# the default for DataArrays and files: :doc:`02_weather`.

island = ef.fit(picture, mask=gaps, missing="nan")
island([46.0, 86.0]), island([46.0, 86.0], missing="fill")

# %%
# Noise
# -----
#
# ``denoise=True`` estimates how much noise there is; a number is its standard deviation. The field
# then passes near the samples, not through them.

noisy = picture + rng.normal(0, 20, picture.shape)
clean = ef.fit(noisy, ef.smooth(denoise=True)).samples()
known = ef.fit(noisy, ef.smooth(denoise=20.0)).samples()

show(
    [noisy, clean, known],
    [
        f"noisy: {ef.psnr(picture, noisy):.1f} dB",
        f"level estimated: {ef.psnr(picture, clean):.1f} dB",
        f"level known: {ef.psnr(picture, known):.1f} dB",
    ],
)

# %%
# A picture thinned out without smoothing has texture that cannot be told from noise. Give the level
# if you know it.
#
# Both together
# -------------

both = ef.fit(noisy, ef.smooth(denoise=20.0), mask=gaps).samples()
print(f"{ef.psnr(picture, both):.1f} dB of {gaps.mean():.0%} missing, the rest noisy")

# %%
# How it works, and how it compares on real data: :doc:`/oriented`, :doc:`/targets`.
