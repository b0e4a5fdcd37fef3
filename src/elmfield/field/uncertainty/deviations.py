"""What a Field answers about how sure it is."""

from typing import TYPE_CHECKING, Any

from elmfield._array.typing import Array
from elmfield.field.point_values import query
from elmfield.field.uncertainty.posterior import covariance_at_points, draw_around

if TYPE_CHECKING:
    from elmfield.field.model import Model


class WithDeviations:
    """The part of a Field that tells standard deviations, covariances and functions drawn."""

    model: "Model"

    def std(
        self,
        points: Any,
        *,
        quantity: str = "value",
        outside: str = "raise",
        missing: str | None = None,
    ) -> Array:
        """Standard deviations of values at points, or of the `quantity` "gradient" or "laplacian".

        Zero at samples without noise, growing between them, into gaps and beyond the border.
        Calibrated on samples that are left out (`report` says how well), docs/uncertainty.md.
        """
        return query(self.model, f"std {quantity}", points, outside, missing)

    def covariance(self, points: Any) -> Array:
        """Covariances of values at points (n, d) near each other, shape (n, n) or (n, n, C)."""
        return covariance_at_points(self.model, points)

    def draw(self, n: int, points: Any, *, seed: int = 0) -> Array:
        """Values at points of `n` functions from the posterior, shape (n, ...): what could be.

        Their mean is the field and their spread its `std`; the same `seed` gives the same.
        """
        return draw_around(
            self.model, query(self.model, "value", points, missing="fill"), n, points, seed
        )
