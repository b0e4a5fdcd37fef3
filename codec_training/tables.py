"""The files of trained tables: the package's, and those of the other half of the data."""

import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from codec_training.data import HALVES
from elmfield.codec.lossy import contexts

FILES = (
    Path(__file__).parents[1] / "src/elmfield/codec/lossy/priors.npz",
    Path(__file__).parent / "other_half.npz",
)
"""Tables trained on the first and on the second half."""


def known(half=0):
    """The tables of a half, by name; those of the package where there are no others."""
    found = [contexts.load_tables(path) for path in FILES[: half + 1] if path.exists()]
    return {name: table for file in found for name, table in file.items()}


def kept(made, half=0):
    """Write tables, as `np.savez_compressed` does but by LZMA: three quarters of the bytes.

    Classes, most of them, as differences along their last axis: a quarter less again.
    """
    with zipfile.ZipFile(FILES[half], "w", zipfile.ZIP_LZMA) as file:
        for name, table in made.items():
            if name.startswith("classes"):
                table = np.diff(table, axis=-1, prepend=np.uint8(0))
            # A fixed date: the same tables are the same bytes.
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_LZMA
            with file.open(entry, "w") as out:
                np.lib.format.write_array(out, np.asanyarray(table), allow_pickle=False)


def unseen(name):
    """Code with tables that were not trained on an array of this name."""
    return using(int(name in HALVES[0]))


@contextmanager
def using(half):
    """Code with the tables of a half: two axes only, unless it is the package's."""
    before = contexts.SOURCE
    contexts.SOURCE = FILES[half]
    contexts.load_prior.cache_clear()
    try:
        yield
    finally:
        contexts.SOURCE = before
        contexts.load_prior.cache_clear()


def words(given):
    """Arguments of the trainers: numbers of axes, and the half, from words like ``2 half=1``."""
    halves = [int(word[5:]) for word in given if word.startswith("half=")]
    half = halves[0] if halves else 0
    axes = [int(word) for word in given if not word.startswith("half=")]
    return (axes or [1, 2, 3]) if half == 0 else [2], half
