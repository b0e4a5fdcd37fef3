"""A field at points: what it is made of, its values and derivatives anywhere.

``f(x) = offset + scale Σ_i φ_i(x) f_i(x)`` with one local model f_i per region. Puts units and
channels back. Grids, boxes and files are the business of who builds on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

from elmfield._array.backend import cast, namespace
from elmfield._array.memory import capacity, runs, with_less_memory
from elmfield._array.typing import Array
from elmfield.domain import Domain
from elmfield.field import derivatives
from elmfield.field.blended import Blended
from elmfield.field.missing import all_gaps, near_points, shows_gaps
from elmfield.field.reading import Reader
from elmfield.field.transparent import straight, straight_gradient, without
from elmfield.partition import Partition


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise:
    """A continuous function of d coordinates with C channels, at points.

    Parameters
    ----------
    domain : Domain
        The box, its axes and their units.
    blended : Blended
        Local models and their windows, in index coordinates.
    offset, scale : arrays, shape (C,)
        Taken off the samples before fitting, put back on the way out.
    channel_axis : int or None
        Where gridded results have their channels.
    is_complex : bool
        The second half of the channels holds the imaginary parts.
    input_dtype : str
        What the samples were.
    data_range : float
        Peak to peak of the samples, all channels together.
    residual : array, shape (N,), or None
        Sum of squares that the fit left over in each region's box, all channels.
    gaps : array of bool, or None
        What `missing` is, unless the samples that the field is made of know it.
    settings : object
        What the field was made with.
    attributes : mapping
        What the input said about itself (names, units, reference system), for the rooms that talk
        to files; plain numbers, texts, lists and mappings of them.
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
        return sum(g.coefficients.n_stored for g in self.blended.groups)

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

    def __call__(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """Values at `points`.

        Parameters
        ----------
        points : array, shape (..., d)
            Coordinates: sample indices for a plain array, else in the axes' own units. On axes of
            dates datetime64 or ISO text, or seconds since the first sample.
        outside : {"raise", "nearest", "nan"}
            What to do with points outside the domain.
        missing : {"nan", "fill"}, optional
            What to answer where the nearest sample was missing: NaN, or what was filled in. By
            default NaN if the samples came with gaps of their own, as DataArrays and files do.

        Returns
        -------
        array, shape (...,) or (..., C)
        """
        zero = (0,) * len(self.shape)
        take = lambda x, *_: self.blended.partials(x, [zero])[0]  # noqa: E731
        return self._query(points, outside, missing, take, True)

    def gradient(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """First derivatives along the axes, shape (..., d) or (..., C, d), per coordinate unit."""
        if "alpha" in self.attributes:
            plain = self.premultiplied
            values = plain(points, outside=outside, missing=missing)
            slopes = plain.gradient(points, outside=outside, missing=missing)
            return straight_gradient(self, values, slopes)
        return self._query(points, outside, missing, partial(derivatives.gradient, self.blended))

    def hessian(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """Second derivatives, shape (..., d, d) or (..., C, d, d), per coordinate unit squared."""
        self._refuse_alpha()
        return self._query(points, outside, missing, partial(derivatives.hessian, self.blended))

    def laplacian(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """Sum of the unmixed second derivatives, shape (...,) or (..., C)."""
        self._refuse_alpha()
        return self._query(points, outside, missing, partial(derivatives.laplacian, self.blended))

    @property
    def premultiplied(self) -> Self:
        """The field of a picture with transparency as it was fitted, colours times alpha."""
        return replace(self, attributes=without(self.attributes, "alpha"))

    def _refuse_alpha(self) -> None:
        if "alpha" in self.attributes:
            raise ValueError(
                "second derivatives are not known for colours with transparency. Ask "
                "field.premultiplied, whose colours are times alpha."
            )

    @with_less_memory
    def _query(
        self, points: Array, outside: str, missing: str | None, take: Any, constant: bool = False
    ) -> Array:
        """Check the points, evaluate them in batches, give back the shape the caller expects."""
        if outside not in ("raise", "nearest", "nan"):
            raise ValueError(f"`outside` must be 'raise', 'nearest' or 'nan'; got {outside!r}.")
        gaps = shows_gaps(self, missing)
        x = self._reader.points(points, self.offset)
        xp, d = namespace(x), len(self.shape)
        lead = tuple(x.shape[:-1])
        x = xp.reshape(x, (-1, d))
        index, slope, bend, beyond = self._reader.to_index(x, outside, not constant)
        step = max(1, capacity(self.offset) // (6 * d + 4 * int(self.offset.shape[0])))
        parts = [
            self.finish(take(*(a[i:j, :] for a in (index, slope, bend))), constant)
            for i, j in runs(x.shape[0], step)
        ]
        out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        mark = None if beyond is None else beyond[:, None]
        if gaps:
            gone = near_points(self, index)
            mark = gone if mark is None else mark | gone
        if mark is not None:
            mark = xp.reshape(mark, (*mark.shape, *(1,) * (out.ndim - 2)))
            out = xp.where(mark, xp.full_like(out, xp.nan), out)
        out = xp.reshape(out, lead + tuple(out.shape[1:]))
        return out[(slice(None),) * len(lead) + (0, ...)] if self.channel_axis is None else out

    def numbers_of(self, points: Array) -> Array:
        """Points as a caller gives them, dates too, as numbers (..., d) that the axes count in."""
        return self._reader.points(points, self.offset)

    @property
    def _reader(self) -> Reader:
        return Reader(self.domain, self.attributes.get("axes", {}))

    def finish(self, values: Array, constant: bool) -> Array:
        """Undo scale and offset; values (n, C, ...); pair up real and imaginary parts."""
        xp = namespace(values)
        tail = (1,) * (values.ndim - 2)
        values = cast(values, self.offset) * xp.reshape(self.scale, (-1, *tail))
        if constant:
            values = values + xp.reshape(self.offset, (-1, *tail))
            values = straight(self, values)
        return self.joined(values, axis=1)

    def joined(self, values: Array, axis: int = 0) -> Array:
        """Real and imaginary parts, which follow each other along an axis, as complex numbers."""
        if not self.is_complex:
            return values
        C, before = values.shape[axis] // 2, (slice(None),) * axis
        return values[(*before, slice(None, C), ...)] + 1j * values[(*before, slice(C, None), ...)]
