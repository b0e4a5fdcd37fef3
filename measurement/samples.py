"""Arrays as the codec's measurements take them: whole, in their own dtype, with their peak."""

import numpy as np

from paper.research.datasets.files import folders

NUMBERS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24)
KODAK = tuple(f"kodim{n:02d}" for n in NUMBERS)
"""The Kodak pictures there are, 512 x 768."""
WEATHER = (
    "era5_t2m_20230101T12_winter",
    "era5_t2m_20230422T03_spring",
    "era5_t2m_20121201T14_winter",
    "era5_t850_20230110T23",
    "gfs_t2m_20200702T00_summer",
    "ifs_open_t2m_20231125T06_autumn_0p4deg",
)
"""Fields of temperature on the globe, float32."""


def data_file(path):
    """Where a file of the data is."""
    return next(folder / path for folder in folders() if (folder / path).exists())


def colour(name):
    """A picture in colour, uint8, and its peak."""
    from PIL import Image

    with Image.open(data_file(f"kodak/{name}.png")) as file:
        return np.asarray(file.convert("RGB")), 255.0


def sample(name):
    """An array by name and its peak: 255 for pictures and the brain, the range for others."""
    if name in KODAK:
        grey = colour(name)[0].astype(float) @ np.array([0.299, 0.587, 0.114])
        return np.rint(grey).astype(np.uint8), 255.0
    if name == "brain":
        import nibabel as nib

        file = nib.load(data_file("volume/brain_t1_gd_skullstripped_176x188x144.nii.gz"))
        return np.ascontiguousarray(file.dataobj.get_unscaled()), 255.0
    if name == "ns":
        file = np.load(data_file("navier_stokes/ns_vorticity_128x128x100.npz"))
        values = np.ascontiguousarray(file["w"], np.float32)
    else:
        import xarray as xr

        with xr.open_dataset(data_file(f"era5/{name}.nc")) as file:
            found = next(v for v in file.data_vars.values() if v.ndim >= 2 and v.shape[-1] > 100)
            values = np.ascontiguousarray(np.squeeze(found.values), np.float32)
    return values, float(np.ptp(values))
