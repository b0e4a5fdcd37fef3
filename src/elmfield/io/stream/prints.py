"""The fingerprint of an array that does not fit in memory."""

import hashlib
import math
from typing import Any

import numpy as np

from elmfield._array.memory import capacity
from elmfield.samples import source_of


def fingerprint_of(values: Any) -> dict[str, Any]:
    """What `elmfield.io.gridded.fingerprint` says of an array, read a few rows at a time."""
    source = source_of(values)
    shape, dtype = source.shape, np.dtype(source.dtype)
    rows = max(1, 2 * capacity(np.empty(0)) // max(1, math.prod(shape[1:]) * dtype.itemsize))
    digest, low, high = hashlib.sha256(), math.inf, -math.inf
    rest = tuple(slice(0, n) for n in shape[1:])
    for i in range(0, shape[0], rows):
        part = np.ascontiguousarray(source.read((slice(i, min(i + rows, shape[0])), *rest)))
        digest.update(part.data)
        if dtype.kind in "biuf":
            finite = part[np.isfinite(part)] if dtype.kind == "f" else part
            if finite.size:
                low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    about: dict[str, Any] = {"shape": list(shape), "dtype": dtype.name}
    if low <= high:
        about["range"] = [low, high]
    return {**about, "sha256": digest.hexdigest()}
