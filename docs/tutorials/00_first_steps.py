"""
First steps in ten minutes
==========================

elmfield turns an array into a function. The function passes through the samples, and it can be
called, differentiated and integrated anywhere between them. This page shows each step once: fit,
evaluate, draw, save.

Install it from a checkout of the repository, with what this page draws and reads::

    pip install '.[demo,show]'
"""

# %%
# Fit
# ---
#
# `elmfield.fit` takes an array and gives a `Field`. There is nothing to train: it is a linear
# solve, and takes less than a second for a picture of this size.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera

import elmfield as ef

picture = camera().astype(float)
field = ef.fit(picture)
field

# %%
# Evaluate
# --------
#
# Coordinates count samples, in the order of the array's axes: row first, then column. One point is
# a list, many points are an array whose last axis has one number per coordinate.

print("at a sample:     ", field([100, 200]), "was", picture[100, 200])
print("between samples: ", field([100.25, 200.5]))
print("many at once:    ", field(np.array([[0, 0], [10.5, 20.0], [511, 511]])))

# %%
# The domain ends half a sample beyond the outermost samples, where a pixel ends. Farther out the
# field raises an error, unless you ask for NaN or for the nearest place inside.

try:
    field([600, 10])
except ef.OutsideDomainError as problem:
    print(problem)
print(field([600, 10], outside="nan"))

# %%
# Between the pixels
# ------------------
#
# `Field.grid` evaluates on a grid of any spacing. Here are 24 × 24 pixels around the photographer's
# eye, each magnified 16 times: as pixels, and as the function.

y = np.arange(134 - 0.5, 158 - 0.5, 1 / 16) + 1 / 32
x = np.arange(226 - 0.5, 250 - 0.5, 1 / 16) + 1 / 32

figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
axes[0].imshow(picture[134:158, 226:250], cmap="gray", vmin=0, vmax=255)
axes[0].set_title("24 × 24 pixels")
axes[1].imshow(field.grid(y, x), cmap="gray", vmin=0, vmax=255)
axes[1].set_title("the function between them")
for a in axes:
    a.set_axis_off()

# %%
# `Field.resize` does the same for the whole picture, and counts pixels as
# ``skimage.transform.resize`` does. Fewer pixels are means over what each covers, so that nothing
# aliases.

large, small = field.resize((1024, 1024)), field.resize((64, 64))
large.shape, small.shape

# %%
# Differentiate and integrate
# ---------------------------
#
# Derivatives are exact derivatives of the function, not finite differences.

print("gradient:", field.gradient([100.25, 200.5]))
print("integral over a box:", field.integral([100, 200], [110.5, 220]))

# %%
# Say where the samples lie
# -------------------------
#
# With names and coordinates, the field counts in their units. An ``xarray.DataArray`` brings its
# own: :doc:`02_weather`.

latitude, longitude = np.linspace(90, -90, 91), np.arange(0, 360, 2.0)
phi, lam = np.deg2rad(latitude)[:, None], np.deg2rad(longitude)
temperature = 288 - 40 * np.sin(phi) ** 2 + 5 * np.cos(2 * lam) * np.cos(phi)

warm = ef.fit(
    temperature,
    dims=("latitude", "longitude"),
    coords={"latitude": latitude, "longitude": longitude},
    periodic="longitude",
)
print("Vienna:", warm([48.2, 16.4]), "K; one turn further:", warm([48.2, 376.4]), "K")
print("slope: ", warm.gradient([48.2, 16.4]), "K per degree")

# %%
# Save
# ----
#
# `elmfield.save` writes a model file, `elmfield.load` opens it and reads what a query needs. A
# field holds its samples without loss, unless you say how far off they may be: then the file is as
# small as that allows.

near = ef.fit(camera(), ef.smooth(max_error=4.5))
print("largest error:", ef.max_error(camera(), near.samples()))
print("bits a sample:", round(8 * near.n_bytes / picture.size, 2), "instead of 8")

ef.save(near, "camera.elm")
again = ef.load("camera.elm")
again([100.25, 200.5])

# %%
# The same from a shell::
#
#     elmfield fit photo.png -o photo.elm --max-error 4.5
#     elmfield view photo.elm
#     elmfield render photo.elm -o large.png --scale 2
#
# Where next
# ----------
#
# The other tutorials each take one task. :doc:`/howto` translates calls of SciPy, xarray and
# scikit-image. :doc:`/reference/index` has every name.
