"""What a library may follow through a fit, to differentiate it by the samples."""

from elmfield._array.backend import learns
from elmfield._array.typing import Array
from elmfield.settings import Settings


def refuse_unfollowed(values: Array, settings: Settings) -> None:
    """Refuse samples that are followed through an error target: gradients would be wrong."""
    if learns(values) and settings.target is not None:
        raise unfollowed("an error target, which chooses what to keep")


def unfollowed(step: str) -> TypeError:
    """An error that says which step is not followed."""
    return TypeError(
        f"samples that require gradients cannot be followed through {step}. Detach them, "
        "values.detach(), or fit without."
    )
