"""Plain values: what may stand in a model file's metadata, and the way there and back.

Numbers, texts, lists and mappings of them pass as they are; NumPy's become Python's. What JSON
cannot say (NaN, infinities, dates, complex numbers) is written as a mapping with one key that
begins with a dollar sign. Nothing else is accepted, so nothing else can come out of a file.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_plain(value: Any) -> Any:
    """`value` in JSON's own terms.

    Raises
    ------
    TypeError
        If it is none of numbers, texts, dates, lists, mappings and arrays of them.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (np.datetime64, np.timedelta64)):
        kind = "$date" if isinstance(value, np.datetime64) else "$duration"
        unit = np.datetime_data(value.dtype)[0]
        if np.isnat(value):
            return {kind: ["NaT", unit]}
        return {kind: [str(value) if kind == "$date" else int(value.astype(np.int64)), unit]}
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, complex):
        return {"$complex": [to_plain(value.real), to_plain(value.imag)]}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return to_plain(value[()])
    if isinstance(value, (list, tuple, np.ndarray)):
        return [to_plain(v) for v in value]
    raise TypeError(
        f"only numbers, texts, dates, and lists and mappings of them can be kept with a field; got "
        f"a {type(value).__name__}."
    )


def from_plain(value: Any) -> Any:
    """What :func:`to_plain` was given, arrays and tuples as lists."""
    if isinstance(value, list):
        return [from_plain(v) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, content),) = value.items()
        if key == "$float":
            return float(content)
        if key == "$complex":
            return complex(*(from_plain(v) for v in content))
        if key == "$date":
            return np.asarray(str(content[0]), f"datetime64[{content[1]}]")[()]
        if key == "$duration":
            return np.asarray(content[0], f"timedelta64[{content[1]}]")[()]
    return {k: from_plain(v) for k, v in value.items()}


def keepable(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """The entries of `mapping` that a model file can keep; others are left out."""
    kept = {}
    for key, value in mapping.items():
        try:
            to_plain(value)
        except TypeError:
            continue
        kept[str(key)] = value
    return kept
