"""What is asked at points: values and derivatives, in batches; units and channels put back.

Whatever has a domain and a function of index coordinates answers here; how the function answers it
does not know.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import Any, Self

from elmfield._array.backend import cast, namespace
from elmfield._array.memory import capacity, runs, with_less_memory
from elmfield._array.typing import Array
from elmfield.domain import Domain
from elmfield.field import derivatives
from elmfield.field.derivatives import Function
from elmfield.field.reading import Reader
from elmfield.field.transparent import straight, straight_gradient, without

OUTSIDE = ("raise", "nearest", "nan")
"""What can be done with points outside the domain."""


class Queries:
    """Values, gradients, Hessians and Laplacians at points."""

    domain: Domain
    offset: Array
    scale: Array
    channel_axis: int | None
    is_complex: bool
    attributes: Mapping[str, Any]

    @property
    def function(self) -> Function:
        """What is asked, in index coordinates."""
        raise NotImplementedError

    def function_for(self, n: int) -> Function:
        """What n points ask."""
        return self.function

    def at_once(self, points: Any) -> Any:
        """The value at one point inside the domain, if that is all and there is a short way."""
        return None

    def hidden(self, index: Array, missing: str | None) -> Array | None:
        """Which points are not to be shown, (n, 1) or (n, C); None if all are."""
        return None

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

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.add.outer(np.arange(20.0), np.arange(30.0)))
        >>> field([[2.5, 3.25], [1.0, 1.0]]).round(9)
        array([5.75, 2.  ])
        >>> float(field([25.0, 0.0], outside="nan"))
        nan
        """
        one = self.at_once(points) if outside in OUTSIDE and missing is None else None
        if one is not None:
            return one
        return self._query(points, outside, missing, derivatives.value, True)

    def gradient(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """First derivatives along the axes, shape (..., d) or (..., C, d), per coordinate unit.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.add.outer(2 * np.arange(20.0), np.arange(30.0)))
        >>> field.gradient([2.5, 3.25]).round(9)
        array([2., 1.])
        """
        if "alpha" in self.attributes:
            plain = self.premultiplied
            values = plain(points, outside=outside, missing=missing)
            slopes = plain.gradient(points, outside=outside, missing=missing)
            return straight_gradient(self, values, slopes)
        return self._query(points, outside, missing, derivatives.gradient)

    def hessian(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """Second derivatives, shape (..., d, d) or (..., C, d, d), per coordinate unit squared."""
        self._refuse_alpha()
        return self._query(points, outside, missing, derivatives.hessian)

    def laplacian(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """Sum of the unmixed second derivatives, shape (...,) or (..., C)."""
        self._refuse_alpha()
        return self._query(points, outside, missing, derivatives.laplacian)

    @property
    def premultiplied(self) -> Self:
        """The field of a picture with transparency as it was fitted, colours times alpha."""
        return replace(self, attributes=without(self.attributes, "alpha"))  # type: ignore[type-var]

    def _refuse_alpha(self) -> None:
        if "alpha" in self.attributes:
            raise ValueError(
                "second derivatives are not known for colours with transparency. Ask "
                "field.premultiplied, whose colours are times alpha."
            )

    @with_less_memory
    def _query(
        self, points: Array, outside: str, missing: str | None, what: Any, constant: bool = False
    ) -> Array:
        """Check the points, evaluate them in batches, give back the shape the caller expects."""
        if outside not in OUTSIDE:
            raise ValueError(f"`outside` must be 'raise', 'nearest' or 'nan'; got {outside!r}.")
        x = self._reader.points(points, self.offset)
        xp, d = namespace(x), x.shape[-1]
        lead = tuple(x.shape[:-1])
        x = xp.reshape(x, (-1, d))
        n = x.shape[0]
        index, slope, bend, beyond = self._reader.to_index(x, outside, not constant)
        take = partial(what, self.function_for(n))
        step = max(1, capacity(self.offset) // (6 * d + 4 * int(self.offset.shape[0])))
        parts = [
            self.finish(take(*(a[i:j, :] for a in (index, slope, bend))), constant)
            for i, j in runs(n, step)
        ]
        out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        mark, gone = None if beyond is None else beyond[:, None], self.hidden(index, missing)
        if gone is not None:
            mark = gone if mark is None else mark | gone
        if mark is not None:
            mark = xp.reshape(mark, (*mark.shape, *(1,) * (out.ndim - 2)))
            out = xp.where(mark, xp.full_like(out, xp.nan), out)
        out = xp.reshape(out, lead + tuple(out.shape[1:]))
        return out[(slice(None),) * len(lead) + (0, ...)] if self.channel_axis is None else out

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.domain, self.attributes.get("axes", {}))

    def __getstate__(self) -> dict[str, Any]:
        """What is worth sending elsewhere: nothing that was only kept to be fast."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def finish(self, values: Array, constant: bool) -> Array:
        """Undo scale and offset; values (n, C, ...); pair up real and imaginary parts."""
        xp = namespace(values)
        tail = (1,) * (values.ndim - 2)
        if values.dtype != xp.float64:  # offset and scale may be more precise than coefficients
            values = cast(values, self.offset)
        values = values * cast(xp.reshape(self.scale, (-1, *tail)), values)
        if constant:
            values = values + cast(xp.reshape(self.offset, (-1, *tail)), values)
            values = straight(self, values)
        # A table's polynomials may be more precise than the field.
        return self.joined(cast(values, self.offset), axis=1)

    def joined(self, values: Array, axis: int = 0) -> Array:
        """Real and imaginary parts, which follow each other along an axis, as complex numbers."""
        if not self.is_complex:
            return values
        C, before = values.shape[axis] // 2, (slice(None),) * axis
        return values[(*before, slice(None, C), ...)] + 1j * values[(*before, slice(C, None), ...)]
