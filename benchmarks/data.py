"""Real data for the measurements: pictures, satellite scenes, weather, flow, anatomy, speech.

The folder is ``$ELMFIELD_DATA`` or, without it, ``../shared/data`` beside the repository.
Everything comes back as float64 unless a function says otherwise; channels are last.
"""

import gzip
import os
import wave
from pathlib import Path

import h5py
import numpy as np
import tifffile
from PIL import Image

ROOT = Path(
    os.environ.get("ELMFIELD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


def grey(picture):
    """ITU-R 601 luma of an RGB picture, not rounded."""
    return np.asarray(picture, dtype=np.float64) @ [0.299, 0.587, 0.114]


def centre(picture, size=512):
    """The `size` by `size` samples in the middle."""
    top, left = ((n - size) // 2 for n in picture.shape[:2])
    return picture[top : top + size, left : left + size]


def halved(picture):
    """Means of 2 by 2 pixels."""
    return (picture[::2, ::2] + picture[1::2, ::2] + picture[::2, 1::2] + picture[1::2, 1::2]) / 4


def kodak_numbers():
    """Numbers of the pictures of the Kodak suite that are there."""
    return sorted(int(p.stem[-2:]) for p in (ROOT / "kodak").glob("kodim*.png"))


def kodak_rgb(number):
    """512x512 centre crop, RGB, 0 to 255."""
    path = ROOT / "kodak" / f"kodim{number:02d}.png"
    return centre(np.asarray(Image.open(path), dtype=np.float64))


def kodak(number):
    """512x512 centre crop, grey."""
    return grey(kodak_rgb(number))


def cameraman(name):
    """One of the three pictures called cameraman."""
    path = ROOT / "cameraman" / name
    picture = tifffile.imread(path) if path.suffix == ".tif" else np.asarray(Image.open(path))
    return picture.astype(np.float64)


def mri():
    """512x512 axial T2-weighted brain slice."""
    return np.asarray(Image.open(ROOT / "mri" / "brain_t2_512.png"), dtype=np.float64)


def satellite(name):
    """A scene with its bands last, whichever way the file has them."""
    (path,) = ROOT.glob(f"*/{name}")
    scene = tifffile.imread(path).astype(np.float64)
    return np.moveaxis(scene, int(np.argmin(scene.shape)), -1)


WEATHER = {
    "ERA5 t2m, winter 2023": ("era5_t2m_20230101T12_winter.nc", "t2m"),
    "ERA5 t2m, spring 2023": ("era5_t2m_20230422T03_spring.nc", "t2m"),
    "ERA5 t2m, winter 2012": ("era5_t2m_20121201T14_winter.nc", "t2m"),
    "ERA5 t850, winter 2023": ("era5_t850_20230110T23.nc", "t"),
    "GFS t2m, summer 2020": ("gfs_t2m_20200702T00_summer.nc", "t2m"),
    "IFS t2m, autumn 2023 (0.4°)": ("ifs_open_t2m_20231125T06_autumn_0p4deg.nc", "t2m"),
}


def weather(name):
    """A field of temperature in kelvin, latitude by longitude."""
    file, variable = WEATHER[name]
    with h5py.File(ROOT / "era5" / file) as f:
        # the one variable on a grid, whatever a file calls it
        data = f[variable] if variable in f else max(f.values(), key=lambda v: v.size)
        return np.asarray(data, dtype=np.float64).reshape(data.shape[-2:])


def navier_stokes():
    """Vorticity, 128 x 128 x 100 (x, y, t), float32 as stored."""
    return np.load(ROOT / "navier_stokes" / "ns_vorticity_128x128x100.npz")["w"]


def speech():
    """54400 samples of read speech, 16 kHz."""
    with wave.open(str(ROOT / "audio" / "voices_speech_16k.wav")) as f:
        return np.frombuffer(f.readframes(f.getnframes()), dtype="<i2").astype(np.float64)


def brain_volume():
    """176 x 188 x 144 contrast-enhanced T1 volume (a NIfTI file of bytes, scale undone)."""
    path = ROOT / "volume" / "brain_t1_gd_skullstripped_176x188x144.nii.gz"
    raw = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(raw, "<i2", 8, 40)[1:4]
    kind = int(np.frombuffer(raw, "<i2", 1, 70)[0])
    offset, slope, shift = (float(np.frombuffer(raw, "<f4", 1, at)[0]) for at in (108, 112, 116))
    dtype = {2: "u1", 4: "<i2", 16: "<f4"}[kind]
    stored = np.frombuffer(raw, dtype, int(np.prod(shape)), int(offset))
    return stored.reshape(shape, order="F").astype(np.float64) * (slope or 1) + shift
