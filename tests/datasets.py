"""Readers of the data folder: arrays as the claims of the project use them."""

import h5py
import numpy as np
import tifffile
from PIL import Image
from scipy.io import loadmat, netcdf_file

KODAK = (*range(2, 13), *range(14, 19), *range(20, 25))


def grey(rgb):
    """ITU-R 601 luma in float64."""
    return rgb[..., :3].astype(float) @ [0.299, 0.587, 0.114]


def centre(picture, size):
    top, left = ((n - size) // 2 for n in picture.shape[:2])
    return picture[top : top + size, left : left + size]


def kodak(folder, number, size=512):
    """A square from the middle of a Kodak picture, RGB."""
    return centre(np.asarray(Image.open(folder / "kodak" / f"kodim{number:02}.png")), size)


def cameraman(folder):
    return np.asarray(Image.open(folder / "cameraman" / "cameraman_512.png")).astype(float)


def mri(folder):
    return np.asarray(Image.open(folder / "mri" / "brain_t2_512.png")).astype(float)


def sentinel2(folder):
    """12 bands, channels first."""
    name = "s2_l2a_12band_224_282D_485L_3_3.tif"
    return np.moveaxis(tifffile.imread(folder / "sentinel2" / name), -1, 0).astype(float)


def worldview2(folder):
    """8 bands, channels last."""
    return loadmat(folder / "worldview" / "wv2_8band_320_pan_1280.mat")["I_MS"].astype(float)


def navier_stokes(folder):
    return np.load(folder / "navier_stokes" / "ns_vorticity_128x128x100.npz")["w"].astype(float)


def era5(folder):
    """Name and field (721, 1440) or smaller, of every NetCDF file."""
    for path in sorted((folder / "era5").glob("*.nc")):
        try:
            with h5py.File(path) as file:
                (values,) = (file[k][...] for k in file if file[k].ndim >= 2)
        except OSError:  # NetCDF-3
            with netcdf_file(path, mmap=False) as file:
                (packed,) = (v for v in file.variables.values() if v.data.ndim >= 2)
                values = packed.data * packed.scale_factor + packed.add_offset
        yield path.stem, np.squeeze(values).astype(float)
