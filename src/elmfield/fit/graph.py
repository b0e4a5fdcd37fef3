"""What a library may follow through a fit, to differentiate it by the samples."""

from elmfield._array.backend import learns
from elmfield._array.typing import Array
from elmfield.settings import Settings


def refuse_unfollowed(values: Array, settings: Settings) -> None:
    """Refuse samples that are followed through steps that choose: gradients would be wrong."""
    if not learns(values):
        return
    step = None
    if settings.denoise is not False:
        step = "denoising, which learns from the samples what to believe"
    elif settings.target is not None:
        step = "an error target, which chooses what to keep"
    if step is not None:
        raise TypeError(
            f"samples that require gradients cannot be followed through {step}. Detach them, "
            "values.detach(), or fit without."
        )
