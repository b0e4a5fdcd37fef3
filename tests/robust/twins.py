"""Compiled loops and NumPy on arrays from seeds: the same bytes, samples and merges."""

from contextlib import contextmanager

import numpy as np

import elmfield as ef
from elmfield._array import running
from elmfield.codec import pack, unpack

DTYPES = ("u1", "i2", "u2", "i4", "f2", "f4", "f8")
MOST = {1: 20_000, 2: 200, 3: 36, 4: 14}


@contextmanager
def by(loops):
    """Whether compiled loops are used, however little there is to do."""
    before, running.pays = running.pays, lambda work: loops
    try:
        yield
    finally:
        running.pays = before


def samples(rng, shape):
    """A walk, noise, steps, few values among zeros, or a chequered array; about 0, of order 1."""
    noise = rng.standard_normal(shape)
    kind = str(rng.choice(["walk", "noise", "steps", "sparse", "chequers"]))
    if kind == "walk":
        for k in range(noise.ndim):
            noise = noise.cumsum(axis=k) / 3
    elif kind == "steps":
        noise = np.round(noise)
    elif kind == "sparse":
        noise = noise * (rng.random(shape) < 0.01)
    elif kind == "chequers":
        noise = np.indices(shape).sum(axis=0) % 2 + 0.01 * noise
    return noise


def coded(rng):
    """Whether a tile has the same bytes, and these the same samples."""
    d = int(rng.integers(1, 5))
    values = samples(rng, tuple(int(n) for n in rng.integers(MOST[d] // 4, MOST[d], d)))
    dtype = np.dtype(str(rng.choice(DTYPES)))
    unit = 10.0 ** rng.uniform(0, 3)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        values = np.clip(np.round(unit * values), ends.min, ends.max).astype(dtype)
    else:
        values = (unit * values).astype(dtype)
        if rng.integers(3) == 0:
            values[rng.random(values.shape) < 0.1] = np.nan
    span = unit * 10.0 ** rng.uniform(-3, 0)
    asked = [{}, {"step": span}, {"max_error": span}][int(rng.integers(3))]
    if d > 1 and rng.integers(3) == 0:
        asked["channel_axis"] = int(rng.integers(d))
    if asked:
        asked["effort"] = int(rng.choice([1, 5]))  # 1: more is interpolated
    told = f"{dtype}{values.shape}, {asked}"
    data = []
    for loops in (False, True):
        with by(loops):
            data.append(pack(values, **asked))
    if data[0] != data[1]:
        return f"wrong: other bytes of {told}"
    read = []
    for loops in (False, True):
        with by(loops):
            read.append(unpack(data[0]).tobytes())
    return "the same" if read[0] == read[1] else f"wrong: other samples of {told}"


def merged(rng):
    """Whether BEAM merges the same cells."""
    d = int(rng.choice([1, 2, 2, 3]))
    values = samples(rng, tuple(int(n) for n in rng.integers(8, {1: 400, 2: 64, 3: 16}[d], d)))
    options = {
        "cell": int(rng.integers(2, 6)),
        "periodic": tuple(np.flatnonzero(rng.random(d) < 0.3).tolist()),
        "shapes": str(rng.choice(["any", "boxes"])),
        "outside": str(rng.choice(["zero", "mean"])),
        "normalisation": str(rng.choice(["forward", "ortho", "backward"])),
    }
    mesh = ef.Partition.regular(values.shape, options["cell"])
    options["regions"] = int(rng.integers(1, mesh.n_regions + 1))
    if rng.integers(3) == 0:
        options["mask"] = rng.random(values.shape) < 0.1
    labels = []
    for loops in (False, True):
        with by(loops):
            labels.append(ef.beam(values, **options).labels)
    same = np.array_equal(*labels)
    return "the same" if same else f"wrong: other merges of {values.shape}, {options}"


def attempt(seed):
    """ "the same", or what differs."""
    rng = np.random.default_rng(seed)
    return merged(rng) if rng.integers(4) == 0 else coded(rng)
