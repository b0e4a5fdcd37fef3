"""
Digits as functions
===================

All pictures share one basis of functions, so their coefficients are features that a linear classifier takes, at any
resolution: here trained on digits of 8 × 8 pixels and tested on 6 × 6 and 12 × 12.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.transform import resize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from elmfield.sklearn import FieldTransformer

pixels, label = load_digits(return_X_y=True)
train, test = train_test_split(np.arange(len(label)), test_size=0.5, random_state=0)
pictures = {
    n: np.stack(
        [resize(p, (n, n), order=1, anti_aliasing=n < 8) for p in pixels.reshape(-1, 8, 8)]
    ).reshape(-1, n * n)
    for n in (6, 8, 12)
}
basis = {n: FieldTransformer(shape=(n, n), modes=(6, 6)).fit(p) for n, p in pictures.items()}
coefficients = {n: basis[n].transform(p) for n, p in pictures.items()}

by_pixels = LogisticRegression(C=0.01, max_iter=5000).fit(pictures[8][train], label[train])
by_function = LogisticRegression(C=0.01, max_iter=5000).fit(coefficients[8][train], label[train])


def in_pixels(rows, n):
    """Pictures of n × n pixels as a classifier of 8 × 8 pixels needs them."""
    return np.stack(
        [resize(p, (8, 8), order=1, anti_aliasing=n > 8) for p in rows.reshape(-1, n, n)]
    ).reshape(-1, 64)


for n in (6, 8, 12):
    shown = in_pixels(pictures[n][test], n) if n != 8 else pictures[8][test]
    print(
        f"{n:2} × {n:2}: pixels {by_pixels.score(shown, label[test]):.3f}, "
        f"coefficients {by_function.score(coefficients[n][test], label[test]):.3f}"
    )

# %%
# Between two digits, in the space of coefficients, shown at 24 × 24 pixels.

large = FieldTransformer(shape=(24, 24), modes=(6, 6)).fit(np.zeros((1, 576)))
one, other = coefficients[12][label == 3][0], coefficients[12][label == 8][0]
steps = large.inverse_transform(np.stack([(1 - t) * one + t * other for t in np.linspace(0, 1, 6)]))
figure, axes = plt.subplots(1, 6, figsize=(9, 1.7), layout="constrained")
for axis, picture in zip(axes, steps, strict=True):
    axis.imshow(picture.reshape(24, 24), cmap="gray_r")
    axis.axis("off")
