"""
A weather field: stations, regridding, derivatives, masks
=========================================================

An ``xarray.DataArray`` brings names, coordinates, units and gaps. Results come back as DataArrays.
This page makes its own temperatures; ``ef.fit("era5.nc")`` or ``ef.fit(dataset["t2m"])`` begin with
yours. Needs the extra ``xarray``, and ``geo`` for NetCDF files.
"""

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import elmfield as ef

latitude = np.arange(88, -89, -4.0)
longitude = np.arange(0, 360, 4.0)
phi, lam = np.deg2rad(latitude)[:, None], np.deg2rad(longitude)
t2m = xr.DataArray(
    288 - 45 * np.sin(phi) ** 2 + 8 * np.cos(phi) ** 2 * np.cos(3 * lam + 2 * phi),
    name="t2m",
    dims=("latitude", "longitude"),
    coords={
        "latitude": ("latitude", latitude, {"units": "degrees_north"}),
        "longitude": ("longitude", longitude, {"units": "degrees_east"}),
    },
    attrs={"units": "K", "long_name": "temperature"},
)
field = ef.fit(t2m)
field

# %%
# Stations
# --------
#
# `Field.interp` follows the rules of ``DataArray.interp``: coordinates that share a dimension are
# points. Longitudes that cover the circle are periodic.

stations = xr.Dataset(
    {
        "latitude": ("station", [48.2, -33.9, 1.3]),
        "longitude": ("station", [16.4, 151.2, 363.8]),
    },
    coords={"station": ["Vienna", "Sydney", "a buoy"]},
)
field.interp(stations)

# %%
# Land stays missing
# ------------------
#
# NaN in a DataArray, or a file's fill value, is a gap. The field returns NaN where the nearest
# sample was missing; ``missing="fill"`` returns filled values.

land = np.hypot(t2m.latitude - 10, t2m.longitude - 150) < 35
ocean = ef.fit(t2m.where(~land))
print(ocean([10.0, 150.0]), ocean([10.0, 150.0], missing="fill"))

# %%
# Regridding
# ----------
#
# `elmfield.regrid` gives another grid: by step, by size, or that of something else. ``mean=True`` is
# conservative: every new cell is the mean over its area, land left out.

fine = ef.regrid(ocean, step=1.0)
coarse = ef.regrid(ocean, grid=(18, 36), mean=True)

figure, axes = plt.subplots(1, 3, figsize=(12, 2.8), layout="constrained")
for a, (data, title) in zip(
    axes,
    [(t2m.where(~land), "4°, as given"), (fine, "1°"), (coarse, "10° means")],
    strict=True,
):
    data.plot(ax=a, add_colorbar=False, vmin=240, vmax=296)
    a.set_title(title)

# %%
# Means are exact: the global mean does not change with the grid.

whole = ef.regrid(field, grid=(18, 36), mean=True)
edges = np.deg2rad(np.linspace(90, -90, 19))
weights = xr.DataArray(-np.diff(np.sin(edges)), dims="latitude")
print(float(whole.weighted(weights.assign_coords(latitude=whole.latitude)).mean()))
print(ef.sphere(field).mean())

# %%
# Files work the same way. Gaps, names and units are kept.

t2m.where(~land).to_netcdf("t2m.nc")
ef.regrid("t2m.nc", step=2.0).to_netcdf("t2m-2.nc")
xr.open_dataset("t2m-2.nc")["t2m"]

# %%
# Derivatives on the sphere
# -------------------------
#
# `elmfield.sphere` takes into account that a degree of longitude is shorter in the north: gradients
# are per metre, north and east, and a pole is a single point.

earth = ef.sphere(field)
north, east = np.moveaxis(earth.gradient([[48.2, 16.4], [80.0, 16.4]]), -1, 0)
print("K per 1000 km, north:", 1e6 * north, "east:", 1e6 * east)

# %%
# Two variables, eastward and northward, are a wind.

wind = xr.Dataset(
    {
        "u": t2m.copy(data=20 * np.cos(phi) + 0 * lam),
        "v": t2m.copy(data=5 * np.cos(phi) * np.sin(2 * lam)),
    }
)
air = ef.sphere(ef.fit(wind), components=("u", "v"))
y, x = np.meshgrid(np.arange(-80.0, 81), np.arange(0.0, 360), indexing="ij")
vorticity = air.vorticity(np.stack([y, x], axis=-1))

figure, a = plt.subplots(figsize=(7, 3), layout="constrained")
shown = a.pcolormesh(x, y, 1e6 * vorticity, cmap="RdBu_r")
figure.colorbar(shown, label="vorticity, 10⁻⁶ per second")
_ = a.set(xlabel="longitude", ylabel="latitude")

# %%
# More, with calendars, curvilinear grids, Datasets and the command line: :doc:`/earth`.
