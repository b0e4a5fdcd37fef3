"""The trained tables of the package: what is believed of magnitudes before a tile is seen.

``priors.npz`` is written by ``codec_training/codec.py`` and is part of the format: a decoder needs
the same numbers.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy.contexts import Contexts
from elmfield.codec.lossy.magnitudes import N_TOKENS, WIDTHS

N_FLAGS = 32
NAMES = ("weights", "classes", "flags", "tokens", "going", "smoothing")
"""Arrays of the file for each number of axes."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Tables for arrays of d axes.

    Parameters
    ----------
    contexts : Contexts
        Which class a coefficient has.
    tokens : array of int, shape (classes, tokens)
        Counts of tokens in a class, 4096 in all; 0 for tokens a class does not have.
    flags : array of int, shape (N_FLAGS, 2)
        Counts of boxes that stop and go on.
    smoothing : array of int16, shape (levels, weights)
        Weights of neighbours of decoded samples, see :mod:`smoothing`.
    """

    contexts: Contexts
    tokens: NDArray[np.int64]
    flags: NDArray[np.int64]
    smoothing: NDArray[np.int16]

    @cached_property
    def costs(self) -> NDArray[np.float32]:
        """Bits of a token and what follows it, sign included, shape (classes, tokens)."""
        p = np.maximum(self.tokens, 0.05) / self.tokens.sum(axis=1, keepdims=True)
        signs = np.minimum(np.arange(N_TOKENS), 1)
        return np.asarray(-np.log2(p) + WIDTHS + signs, np.float32)

    @cached_property
    def flag_costs(self) -> NDArray[np.float32]:
        """Bits of a flag, shape (N_FLAGS, 2)."""
        return np.asarray(-np.log2(self.flags / self.flags.sum(axis=1, keepdims=True)), np.float32)


SOURCE: Traversable = files("elmfield.codec.lossy").joinpath("priors.npz")
"""Where the tables are."""


def opened(source: Traversable) -> dict[str, NDArray[Any]]:
    """The tables of a file by name; those of classes are there as differences, which are small."""
    with source.open("rb") as file:
        found = dict(np.load(file))
    for name in found:
        if name.startswith("classes"):
            found[name] = np.cumsum(found[name], axis=-1, dtype=np.uint8)
    return found


@lru_cache(maxsize=4)
def prior(d: int) -> Prior:
    """The tables for d axes; four axes use those of three."""
    d = min(d, 3)
    found = opened(SOURCE)
    get = {name: found[f"{name}{d}"] for name in NAMES}
    contexts = Contexts(get["weights"].astype(np.int32), get["classes"].ravel(), get["flags"])
    counts = (get["tokens"].astype(np.int64), get["going"].astype(np.int64))
    return Prior(contexts, *counts, get["smoothing"])
