"""What may be asked of a field: an error, a size, or a number of coefficients."""

from dataclasses import dataclass

from elmfield._array.checks import at_most_one, is_integer, is_whole, positive

CODED = ("psnr", "max_error", "bits", "bytes")
"""Targets that are met by coding samples, where these settle a field."""


@dataclass(frozen=True)
class Target:
    """What is asked for: a PSNR in dB, a largest error, a size, or a number of coefficients.

    Parameters
    ----------
    kind : {"psnr", "max_error", "bits", "bytes", "coefficients", "per_region"}
        Which of them; bits are those of a sample.
    value : float
        How much.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.smooth(max_error=0.5).target
    Target(kind='max_error', value=0.5)
    """

    kind: str
    value: float

    def __post_init__(self) -> None:
        positive(self.kind, self.value)
        if self.kind in ("bytes", "coefficients", "per_region") and not is_whole(self.value):
            raise ValueError(f"`{self.kind}` must be a whole number; got {self.value!r}.")
        if not isinstance(self.value, (int, float)):  # float32, for instance, has no 1e150
            plain = int(self.value) if is_integer(self.value) else float(self.value)
            object.__setattr__(self, "value", plain)

    @classmethod
    def one_of(cls, **asked: float | None) -> "Target | None":
        """The one target among those that are not None; None if there is none."""
        given = at_most_one(**asked)
        return None if given is None else cls(*given)

    @property
    def is_coded(self) -> bool:
        """Whether it is met by coding samples, where these settle a field."""
        return self.kind in CODED
