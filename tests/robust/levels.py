"""Coarse levels from seeds, against means of blocks of samples: in memory, files, streams, crops.

Tiles are small here, and of any size: blocks of 2^k samples begin and end inside them.
"""

import shutil
import warnings
from contextlib import contextmanager
from unittest import mock

import numpy as np

import elmfield as ef
from elmfield.field.coefficients import tiles
from elmfield.field.grid_values import coarse_means
from elmfield.io.model import sample_files
from support import block_means

EACH = 5
"""Levels of one field."""

SIZES = {1: (2, 700), 2: (2, 70), 3: (2, 22), 4: (2, 9)}
DTYPES = ("uint8", "int16", "int32", "float32", "float64", "complex128")
WAYS = ("memory", "coded", "file", "folder", "stream", "append", "append", "crop", "file of a crop")


def array(rng):
    """Samples of one to four axes, perhaps channels; and how many axes are space."""
    d = int(rng.choice([1, 2, 2, 3, 4]))
    shape = [int(n) for n in rng.integers(*SIZES[d], d)]
    if rng.random() < 0.4:  # whole boxes of the codec, whose means are read without the rest
        shape = [-(-n // 16) * 16 for n in shape] if d < 4 else [8] * 4
    channels = int(rng.integers(2, 4)) if rng.random() < 0.3 else None
    values = rng.standard_normal((*shape, *([channels] if channels else []))) * 30
    if rng.random() < 0.5:
        values = values.cumsum(int(rng.integers(d)))
    dtype = str(rng.choice(DTYPES))
    if dtype == "complex128":
        values = values + 1j * values[::-1]
    if dtype == "uint8":
        values = np.clip(values + 120, 0, 255)
    return values.astype(dtype), d


@contextmanager
def small_tiles(rng):
    """Tiles of some hundred samples, and overviews of small files."""
    seen, halvings = int(rng.choice([1 << 6, 1 << 30])), int(rng.integers(1, 8))
    with (
        mock.patch.object(tiles, "TILE_BYTES", int(rng.choice([300, 1000, 4000, 1 << 19]))),
        mock.patch.object(tiles, "TILE_MULTIPLE", int(rng.choice([4, 16, 64]))),
        mock.patch.object(sample_files, "MIN_SAMPLES", seen),
        mock.patch.object(sample_files, "MIN_HALVINGS", halvings),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)
        yield


def grown(rng, values, d, folder):
    """A model to which samples were appended, twice, on one axis."""
    axis = int(rng.integers(d))
    cuts = np.sort(rng.integers(1, values.shape[axis] + 1, 2))
    parts = [p for p in np.split(values, cuts, axis) if p.shape[axis]]
    channel_axis = -1 if values.ndim > d else None
    path = folder / "grown.elm.zarr"
    ef.fit(parts[0], ef.smooth(order=1.5), channel_axis=channel_axis, out=path)
    for part in parts[1:]:
        ef.append(path, part, axis=axis)
    return ef.load(path)


def made(rng, values, d, folder):
    """A field, the samples it stands for, how far means may be off, and how it was made."""
    way = str(rng.choice(WAYS))
    if way != "append" and values.dtype.kind == "f" and rng.random() < 0.3:
        gone = rng.random(values.shape[:d]) < 0.1
        gone.flat[0] = False  # one is there
        values[gone] = np.nan
    options = {"channel_axis": -1 if values.ndim > d else None}
    if way == "append":
        return grown(rng, values, d, folder), values, 0.0, way
    span = float(np.ptp(np.abs(values[~np.isnan(values)]))) or 1.0
    lossy = way == "coded" or (way in ("file", "folder", "stream") and rng.random() < 0.6)
    off = span * float(rng.choice([0.001, 0.02, 0.1])) if lossy else 0.0
    if lossy and values.dtype.kind in "iu":
        off = max(1.0, off)
    asked = {"max_error": off} if rng.random() < 0.5 else {"psnr": 30.0}
    settings = ef.smooth(order=1.5, **(asked if lossy else {}))
    if way == "stream":
        path = folder / str(rng.choice(["a.elm", "a.elm.zarr"]))
        return ef.fit(values, settings, out=path, **options), values, off, f"stream {asked}"
    field = ef.fit(values, settings, **options)
    if "crop" in way:
        ends = [np.sort(rng.integers(0, n + 1, 2)) for n in field.shape]
        ends = [(a, b) if a < b else (0, n) for (a, b), n in zip(ends, field.shape)]
        field = field.crop([a - 0.4 for a, _ in ends], [b - 0.6 for _, b in ends])
        values = values[tuple(slice(a, b) for a, b in ends)]
    if way not in ("memory", "coded", "crop"):
        path = folder / ("a.elm.zarr" if way == "folder" else "a.elm")
        ef.save(field, path)
        field = ef.load(path, lazy=bool(rng.integers(2)))
    return field, values, off, f"{way} {asked if lossy else ''}"


def outcomes(seed, folder):
    """What became of some levels of one field."""
    rng = np.random.default_rng(seed)
    values, d = array(rng)
    with small_tiles(rng):
        field, values, off, how = made(rng, values, d, folder)
        filled = field.samples(missing="fill")
        values[np.isnan(values)] = filled[np.isnan(values)]
        if "psnr" in how:  # a mean is no farther off than one of its samples
            off = float(np.abs(filled - values).max())
        size = float(np.abs(values).max()) + field.model.data_range
        kept = field.model.blended.source_samples
        off += 64 * float(np.finfo(field.model.coefficient_dtype).eps) * size
        if kept is not None and (kept.overview is not None or kept.is_lossy):
            off += 0.5 if values.dtype.kind in "iu" else 2.0**-23 * size  # as means are kept
        wide = np.result_type(values.dtype, np.float64)
        for k in [1, *(int(n) for n in rng.integers(0, 12, EACH - 2)), int(rng.integers(60, 99))]:
            found, truth = coarse_means(field.model, k), block_means(values.astype(wide), k, d)
            what = f"{how} {values.dtype} {values.shape}, level {k}"
            if found.shape != truth.shape:
                yield what, f"wrong: shape {found.shape}"
                continue
            gap = float(np.abs(found - truth).max())
            yield what, "the same" if gap <= off else f"wrong: {gap:g} of {off:g}"
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
