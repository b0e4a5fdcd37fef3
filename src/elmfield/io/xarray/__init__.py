"""``import elmfield.io.xarray`` gives every xarray.DataArray its accessor ``.elm``.

>>> import elmfield.io.xarray, xarray as xr, numpy as np
>>> field = xr.DataArray(np.eye(20), dims=("y", "x")).elm.fit()
>>> field.domain.dims
('y', 'x')
"""

from elmfield.io.xarray.engine import ElmAccessor, ElmfieldBackend

__all__ = ["ElmAccessor", "ElmfieldBackend"]
