"""
Small files with guaranteed errors
==================================

A field that passes through its samples follows from them. So a model file holds the samples:
without loss, or as few bytes as the error you allow.
"""

# %%
# Say what you need
# -----------------
#
# One of four words: ``max_error`` (no sample is further off), ``psnr`` (in dB), ``bits`` (a sample)
# or ``bytes``.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera

import elmfield as ef

picture = camera()[60:188, 190:318]
field = ef.fit(picture, ef.smooth(max_error=3.5))
print("allowed 3.5, largest error", ef.max_error(picture, field.samples()))
print(field.n_bytes, "bytes instead of", picture.nbytes)

# %%
# The error is measured before the field is returned. A target that cannot be met is refused:

try:
    ef.fit(picture, ef.smooth(bytes=50))
except ValueError as problem:
    print(problem)

# %%
# Quality against size
# --------------------
#
# `Field.keep` changes the target of a field without fitting again.

whole = ef.fit(picture)
sizes = {e: whole.keep(max_error=e).n_bytes for e in (1.5, 3.5, 8.5, 16.5)}

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
axes[0].semilogx(sizes.keys(), [8 * n / picture.size for n in sizes.values()], "o-")
axes[0].set(xlabel="largest error allowed", ylabel="bits a sample", title="what an error saves")
for a, error in zip(axes[1:], (3.5, 16.5), strict=True):
    a.imshow(whole.keep(max_error=error).samples(), cmap="gray", vmin=0, vmax=255)
    a.set_title(f"max_error={error}, {sizes[error]} bytes", fontsize=10)
    a.set_axis_off()

# %%
# As a file
# ---------
#
# `elmfield.save` writes what the field keeps. A name that ends in ``.elm`` is one file, one in
# ``.elm.zarr`` a folder. `elmfield.load` opens it at once, and reads the parts that a query
# touches.

ef.save(field, "camera.elm")
again = ef.load("camera.elm")
print("largest error, from the file:", ef.max_error(picture, again.samples()))
print("still a function:", again([50.25, 80.5]), again.gradient([50.25, 80.5]))

# %%
# Without a target nothing is lost: samples come back bit for bit, in the dtype they had.

ef.save(ef.fit(picture), "all.elm")
np.array_equal(ef.load("all.elm").samples(dtype="uint8"), picture)

# %%
# In Zarr and xarray
# ------------------
#
# The codec can be used for any Zarr array.

import xarray as xr

from elmfield.io.zarr import Codec

t2m = xr.DataArray(
    (280 + np.cumsum(np.random.default_rng(0).normal(size=(90, 180)), axis=1)).astype("float32"),
    dims=("latitude", "longitude"),
    name="t2m",
)
encoding = {"t2m": {"serializer": Codec(max_error=0.01), "compressors": None}}
t2m.to_dataset().to_zarr("t2m.zarr", encoding=encoding, zarr_format=3, consolidated=False)
back = xr.open_zarr("t2m.zarr", consolidated=False)["t2m"]
print("largest error:", float(np.abs(back - t2m).max()))

# %%
# Sizes compared with JPEG 2000, zfp and others: :doc:`/sizes`. How samples are coded: :doc:`/codec`.
# What a file looks like: :doc:`/format`. From a shell::
#
#     elmfield fit photo.png -o photo.elm --max-error 3.5
#     elmfield compare photo.png photo.elm
