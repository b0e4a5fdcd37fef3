"""A field at points: what it is made of, its values and derivatives anywhere.

``f(x) = offset + scale Σ_i φ_i(x) f_i(x)`` with one local model f_i per region. How points
are asked is written in `queries`. Grids, boxes and files are the business of who builds on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from elmfield._array.typing import Array
from elmfield.domain import Domain
from elmfield.field.blended import Blended
from elmfield.field.derivatives import Function
from elmfield.field.lookup import Lookup
from elmfield.field.missing import all_gaps, near_points, shows_gaps
from elmfield.field.queries import Queries
from elmfield.partition import Partition


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise(Queries):
    """A continuous function of d coordinates with C channels, at points.

    What it is made of is told at :class:`elmfield.Field`.
    """

    domain: Domain
    blended: Blended
    offset: Array = field(repr=False)
    scale: Array = field(repr=False)
    channel_axis: int | None = None
    is_complex: bool = False
    input_dtype: str = "float64"
    data_range: float = 1.0
    residual: Array | None = field(default=None, repr=False)
    gaps: Array | None = field(default=None, repr=False)
    settings: object = None
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)

    # --- what it is ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis of the array the field came from."""
        return self.domain.shape

    @property
    def partition(self) -> Partition:
        """Cells, regions and overlap."""
        return self.blended.partition

    @property
    def n_channels(self) -> int:
        """Number of channels C; a complex one counts once."""
        return int(self.offset.shape[0]) // (2 if self.is_complex else 1)

    @property
    def n_coefficients(self) -> int:
        """Numbers stored, all regions and channels together."""
        return self.blended.n_stored

    @property
    def dtype(self) -> Any:
        """Dtype of the values; complex where the samples were."""
        return self.joined(self.offset[:0]).dtype

    @property
    def coefficient_dtype(self) -> Any:
        """Dtype of the stored numbers: real, also where values are complex."""
        return self.blended.dtype

    @cached_property
    def missing(self) -> Array | None:
        """Which samples were missing, None if none was: booleans of the samples' shape.

        On the host; (..., C) where channels differ.
        """
        return all_gaps(self)

    # --- values at points ----------------------------------------------------------------------

    @property
    def function(self) -> Blended:
        """What is asked at points, in index coordinates."""
        return self.blended

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup()

    def function_for(self, n: int) -> Function:
        """What n points ask: a table, once so many have come that it pays."""
        return self._lookup.function_for(self, n)

    def at_once(self, points: Any) -> Any:
        """The value at one point inside the domain, if that is all and there is a short way."""
        if self.attributes.get("missing") == "nan" or "alpha" in self.attributes:
            return None
        return self._lookup.one(self, points)

    def hidden(self, index: Array, missing: str | None) -> Array | None:
        """Which points, index coordinates (n, d), lie nearest to a gap that is to be seen."""
        return near_points(self, index) if shows_gaps(self, missing) else None

    def numbers_of(self, points: Array) -> Array:
        """Points as a caller gives them, dates too, as numbers (..., d) that the axes count in."""
        return self._reader.points(points, self.offset)
