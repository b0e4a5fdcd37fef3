"""What the codec's tables are trained on: arrays and their peaks.

For two axes these are half of the pictures and fields that the benchmark shows. There are two sets
of tables: those of the package were trained on the first half, others on the second, and the
benchmark takes for each array the tables that never saw it. Of what it shows with three axes
nothing is used.
"""

import numpy as np

from measurement.samples import KODAK, WEATHER, data_file, sample


def synthetic(shape, slope, seed):
    """A random field between 0 and 1 whose amplitudes fall by a power of the frequency."""
    noise = np.random.default_rng(seed).standard_normal(shape)
    squares = [np.fft.fftfreq(n) ** 2 for n in shape[:-1]] + [np.fft.rfftfreq(shape[-1]) ** 2]
    k = np.sqrt(sum(np.ix_(*squares)))
    k.flat[0] = np.inf
    x = np.fft.irfftn(np.fft.rfftn(noise) * k**-slope, shape)
    return (x - x.min()) / np.ptp(x)


HALVES = (
    (*KODAK[::2], WEATHER[1], WEATHER[2], WEATHER[4]),
    (*KODAK[1::2], WEATHER[0], WEATHER[3], WEATHER[5]),
)
"""Every second Kodak picture (grey) and three of six fields; and the others."""


def pictures():
    """The pictures of the first half."""
    return [sample(name) for name in HALVES[0] if name in KODAK]


def weather():
    """The fields of the first half."""
    return [sample(name) for name in HALVES[0] if name in WEATHER]


def volumes():
    """Synthetic volumes, smooth and with walls; pictures that move; a small fMRI."""
    import nibabel as nib
    from scipy.ndimage import shift

    size, found = (96, 96, 64), []
    found += [synthetic(size, s, i) for i, s in enumerate((1.5, 2.2, 3.0, 4.0, 5.5))]
    a, b = synthetic(size, 3.0, 11), synthetic(size, 2.0, 12)
    found += [np.where(a > 0.5, 0.7 + 0.3 * b, 0.1 * b), np.where(a > 0.6, 0.5 + 0.3 * b, 0.0)]
    found.append(np.abs(a - 0.5) + 0.02 * b)
    for (picture, peak), v in zip(pictures()[:4], (1.3, -0.6, 0.4, 1.9)):
        part = picture[100:260, 200:360] / peak
        moved = [shift(part, (v * t, 0.7 * v * t), order=3, mode="mirror") for t in range(48)]
        found.append(np.stack([frame[32:128, 32:128] for frame in moved]))
    brain = nib.load(data_file("mri/nibabel_example4d.nii.gz")).dataobj
    found.append(np.asarray(brain).astype(float)[..., 0])
    return [(x, float(np.ptp(x))) for x in found]


def lines():
    """Speech, rows of pictures and fields, synthetic lines."""
    import soundfile

    sound = soundfile.read(data_file("audio/voices_speech_16k.wav"))[0]
    sound = (sound if sound.ndim == 1 else sound[:, 0]).astype(float)
    found = [sound[a : a + 60000] for a in (0, len(sound) // 4)]
    found += [x[100:200].astype(float).ravel() for x, _ in (*pictures()[:3], weather()[0])]
    found += [synthetic((4, 16384), slope, i)[0] for i, slope in enumerate((1.0, 2.0, 3.0))]
    return [(x, float(np.ptp(x))) for x in found]


def sources(d, half=0):
    """What tables for d axes are trained on; with one or three axes there is one set of tables."""
    return [sample(name) for name in HALVES[half]] if d == 2 else {1: lines, 3: volumes}[d]()
