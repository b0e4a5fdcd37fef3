"""
Larger than memory, on Dask
===========================

``fit(..., out=)`` works part by part and writes the model at the same time. The field that it returns
reads from the file what a query touches. Needs the extra ``xarray``, or ``dist`` for a cluster.
"""

# %%
# A Dask array
# ------------
#
# Small here, so that the page builds in seconds; nothing changes with the size. Blocks need not
# match anything.

import dask.array as da
import numpy as np

import elmfield as ef

y = da.arange(300, chunks=100)[:, None] / 31
x = da.arange(400, chunks=150)[None, :] / 47
waves = (da.sin(y) * da.cos(x) + 0.1 * da.sin(9 * y * x / 10)).astype("float32")
waves

# %%
# ``memory_limit`` is in bytes. Dask's scheduler does the work: threads here, a cluster if you have
# started a ``distributed.Client``.

field = ef.fit(waves, ef.smooth(max_error=1e-3), out="waves.elm.zarr", memory_limit=2**22)
field

# %%
# After a crash or Ctrl-C, the same call continues where it was.
#
# Evaluate parts
# --------------

print(field([150.5, 200.25]))
print(field.grid(np.arange(10.0), np.arange(5.0)).shape)

# %%
# `resize` with `chunks` is the field on any grid, evaluated when it is computed, in chunks that match the
# file's tiles. ``scale=2`` is twice as fine.

lazy = field.resize(scale=2, chunks={})
print(lazy.shape)
lazy[:100, :100].mean().compute()

# %%
# xarray opens the model too, lazily.

import xarray as xr

xr.open_dataset("waves.elm.zarr", engine="elmfield", chunks={})

# %%
# Check the error bound, block by block.

print(float(abs(field.samples(chunks={}) - waves).max().compute()))

# %%
# An archive that grows
# ---------------------
#
# `elmfield.append` adds samples to the end of an axis; only tiles at the seam are coded again.

frames = np.sin(np.arange(40)[:, None, None] / 5 + np.arange(30)[:, None] / 7 + np.arange(20) / 6)
ef.fit(frames[:30], ef.smooth(order=2), out="days.elm.zarr")
ef.append("days.elm.zarr", frames[30:]).shape

# %%
# Files of formats that can be read in parts work the same way: ``ef.fit("huge.nc", out="huge.elm.zarr")``.
# More, and measured costs: :doc:`/scale`.
