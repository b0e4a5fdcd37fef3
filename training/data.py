"""What the codec's tables are trained on: arrays and their peaks, none of which a benchmark scores."""

import numpy as np

from elmfield.research.datasets.files import folders

LUMA = np.array([0.299, 0.587, 0.114])


def _file(path):
    return next(folder / path for folder in folders() if (folder / path).exists())


def synthetic(shape, slope, seed):
    """A random field between 0 and 1 whose amplitudes fall by a power of the frequency."""
    noise = np.random.default_rng(seed).standard_normal(shape)
    squares = [np.fft.fftfreq(n) ** 2 for n in shape[:-1]] + [np.fft.rfftfreq(shape[-1]) ** 2]
    k = np.sqrt(sum(np.ix_(*squares)))
    k.flat[0] = np.inf
    x = np.fft.irfftn(np.fft.rfftn(noise) * k**-slope, shape)
    return (x - x.min()) / np.ptp(x)


def _earth():
    from PIL import Image

    with Image.open(_file("large_image/blue_marble_4096x2048.jpg")) as file:
        return np.asarray(file.convert("RGB")).astype(float) @ LUMA


def pictures():
    """Photographs of the earth and the sun, satellite bands, cameraman, a slice, heights."""
    import imagecodecs
    import tifffile
    from PIL import Image

    earth, found = _earth(), []
    for y, x in ((300, 700), (500, 2100), (700, 2500), (400, 3200), (900, 900), (1100, 3000)):
        found.append((earth[y : y + 384, x : x + 512], 255.0))
    sun = imagecodecs.jpeg2k_decode(_file("large_image/sdo_aia193_20130624_4096.jp2").read_bytes())
    sun = (sun if sun.ndim == 2 else sun[..., 0]).astype(float)
    found += [(sun[y : y + 384, x : x + 512], sun.max()) for y, x in ((1000, 1200), (2000, 2500))]
    for name in ("cameraman/camera_skimage_cc0_512", "cameraman/cameraman_512", "mri/brain_t2_512"):
        with Image.open(_file(f"{name}.png")) as file:
            found.append((np.asarray(file.convert("L")).astype(float), 255.0))
    bands = tifffile.imread(_file("worldview/wv2_8band_320.tif")).astype(float)
    bands = bands if bands.shape[0] < 20 else np.moveaxis(bands, -1, 0)
    found += [(bands[k], np.ptp(bands[k])) for k in (1, 4, 6)]
    for name in ("282D_485L_3_3", "38D_378R_2_3", "609U_541L_3_0"):
        bands = tifffile.imread(_file(f"sentinel2/s2_l2a_12band_224_{name}.tif")).astype(float)
        bands = bands if bands.shape[0] < 20 else np.moveaxis(bands, -1, 0)
        found.append((bands[3], np.ptp(bands[3])))
    return found


def weather():
    """A field of ERA5 that is not scored, and synthetic ones with coasts."""
    import xarray as xr

    with xr.open_dataset(_file("era5/era5_t2m_20190101T12_winter_packed_int16.nc")) as file:
        found = [np.squeeze(next(v for v in file.data_vars.values() if v.ndim > 1).values)]
    shape = (360, 720)
    found += [synthetic(shape, slope, 40 + i) for i, slope in enumerate((2.0, 2.8, 3.6))]
    land, sea = synthetic(shape, 2.4, 51), synthetic(shape, 4.0, 52)
    found.append(np.where(synthetic(shape, 3.0, 50) > 0.55, 0.6 + 0.4 * land, 0.2 * sea))
    return [(x.astype(float), float(np.ptp(x))) for x in found]


def volumes():
    """Synthetic volumes, smooth and with walls; pictures that move; a small fMRI."""
    import nibabel as nib
    from scipy.ndimage import shift

    size, found = (96, 96, 64), []
    found += [synthetic(size, s, i) for i, s in enumerate((1.5, 2.2, 3.0, 4.0, 5.5))]
    a, b = synthetic(size, 3.0, 11), synthetic(size, 2.0, 12)
    found += [np.where(a > 0.5, 0.7 + 0.3 * b, 0.1 * b), np.where(a > 0.6, 0.5 + 0.3 * b, 0.0)]
    found.append(np.abs(a - 0.5) + 0.02 * b)
    earth = _earth() / 255
    for y, x, v in ((300, 700, 1.3), (500, 2100, -0.6), (700, 2500, 0.4)):
        part = earth[y : y + 160, x : x + 160]
        moved = [shift(part, (v * t, 0.7 * v * t), order=3, mode="mirror") for t in range(48)]
        found.append(np.stack([frame[32:128, 32:128] for frame in moved]))
    brain = nib.load(_file("mri/nibabel_example4d.nii.gz")).dataobj
    found.append(np.asarray(brain).astype(float)[..., 0])
    return [(x, float(np.ptp(x))) for x in found]


def lines():
    """Speech, rows of pictures and fields, synthetic lines."""
    import soundfile

    sound = soundfile.read(_file("audio/voices_speech_16k.wav"))[0]
    sound = (sound if sound.ndim == 1 else sound[:, 0]).astype(float)
    found = [sound[a : a + 60000] for a in (0, len(sound) // 4)]
    found += [x[100:200].ravel() for x, _ in (*pictures()[:3], weather()[0])]
    found += [synthetic((4, 16384), slope, i)[0] for i, slope in enumerate((1.0, 2.0, 3.0))]
    return [(x, float(np.ptp(x))) for x in found]
