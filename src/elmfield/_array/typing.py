"""Aliases and protocols shared by every package; no code.

Array-API arrays have no usable static type yet, so :data:`Array` is ``Any`` by another name:
annotations say *kind*, docstrings say shape.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""An array of any array-API library: NumPy, torch, array-api-strict."""

DType = Any
"""A dtype of an array library, or what names one: "float32", numpy.uint8."""

Coordinate = Any
"""A place on an axis as callers write it: a number, or on axes of dates a date or a text."""

Namespace = Any
"""The module of functions that goes with an :data:`Array`."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Progress = Callable[[str, int, int], None]
"""Called with ``(stage, done, total)`` during long work."""
