"""Bounds of files, read by the slow decoder; and damaged tiles, with compiled loops and without."""

import zipfile

import numpy as np

import elmfield as ef
from elmfield.codec import pack, unpack
from elmfield.codec.lossy.contexts import SOURCE, load_tables
from elmfield.errors import StoreError
from oracles import interpolated, lossless, lossy
from robust import twins
from robust.arrays import CHANNELS, adversarial, as_dtype
from robust.damage import Hung, limited

MOST = {1: 300, 2: 30, 3: 10}
DTYPES = ("u1", "i2", "i4", "f4", "f8")
EASY = ("constant", "zeros", "plane", "one sample", "two samples", "short line")


def generated(rng):
    """An array of any kind, small enough for the slow decoder; its axis of channels."""
    d = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(2, MOST[d], d))
    values = twins.samples(rng, shape) * 10.0 ** rng.uniform(0, 3)
    dtype = np.dtype(str(rng.choice(DTYPES)))
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return np.clip(np.round(values), ends.min, ends.max).astype(dtype), None
    values = values.astype(dtype)
    if rng.integers(4) == 0:
        values[rng.random(shape) < 0.1] = np.nan
    return values, None


def hard(number):
    """The adversarial array of this number, of those that are not easy."""
    names = [name for name in adversarial() if name not in EASY]
    name = names[number % len(names)]
    values = as_dtype(adversarial()[name], ("float32", "float64")[number % 2])
    return values, -1 if name in CHANNELS else None


def decode_file(path, shape):
    """The samples of a model of one tile, by nothing of ours but the store's layout."""
    with zipfile.ZipFile(path) as file:
        (key,) = [n for n in file.namelist() if "samples/c/" in n]
        data = file.read(key)[:-4]  # a check sum
    if data[2] == 1:
        found = lossy.unpack(data, load_tables(SOURCE))
    else:
        found = (interpolated if data[2] else lossless).unpack(data)
    return np.asarray(found).reshape(shape)


def bounded(seed, folder):
    """ "kept", or by how much a bound is exceeded: of generated arrays, and of adversarial ones."""
    rng = np.random.default_rng(seed)
    number = int(seed[1])
    values, axis = hard(number) if number % 25 == 24 else generated(rng)
    have = values[~np.isnan(values)].astype(float)
    span = float(np.ptp(have)) if have.size else 0.0
    if not span:
        return "refused"
    bound = span * 10.0 ** rng.uniform(-4, -0.5)
    settings = ef.smooth(order=2, max_error=bound, effort=int(rng.integers(1, 10)))
    path = f"{folder}/{seed[0]}-{number}.elm"
    ef.save(ef.fit(values, settings, channel_axis=axis), path)
    told = f"{values.dtype}{values.shape}, {bound:g}"
    for found in (decode_file(path, values.shape), ef.load(path).samples()):
        off = np.abs(found.astype(np.longdouble) - values.astype(np.longdouble))
        largest = float(np.max(off[~np.isnan(values)]))
        if not largest <= bound:
            return f"wrong: {largest:g} of {told}"
    return "kept"


def damaged_tile(seed):
    """ "refused", "another", or what else came of a damaged tile, with loops and without."""
    rng = np.random.default_rng(seed)
    values, _ = generated(rng)
    span = float(np.nanmax(values.astype(float)) - np.nanmin(values.astype(float)) or 1.0)
    asked = [{}, {"max_error": span / 50}, {"step": span / 20}][int(rng.integers(3))]
    data = bytearray(pack(values, **asked))
    kind = int(rng.integers(3))
    if kind == 0:
        data = data[: int(rng.integers(0, len(data)))]
    for _ in range(int(rng.integers(1, 4)) if kind else 0):
        at = int(rng.integers(0, min(len(data), 60) if kind == 1 else len(data)))
        data[at] = int(rng.integers(0, 256))
    found = []
    for loops in (False, True):
        with twins.by(loops), np.errstate(all="ignore"):
            try:
                with limited():
                    made = unpack(bytes(data))
                found.append((made.shape, made.tobytes()))
            except StoreError:
                found.append("refused")
            except (Exception, Hung) as error:  # whatever else: a foreign error
                return f"wrong: {type(error).__name__}: {error} of {values.dtype}, {asked}"
    if (found[0] == "refused") != (found[1] == "refused"):
        return f"wrong: refused by one of loops and NumPy, {values.dtype}, {asked}"
    return "refused" if found[0] == "refused" else "another"
