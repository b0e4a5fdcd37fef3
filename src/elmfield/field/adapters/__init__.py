"""Fields in other libraries and frames: xarray, Dask, torch, warps, scanners, the sphere."""
