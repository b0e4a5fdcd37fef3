"""How a network is trained, whichever it is: steps, rate, batches, when to stop, what to log."""

import math
from dataclasses import dataclass

from elmfield._array.checks import is_integer
from paper.research.baselines.methods import integers, positives

PRECISIONS = ("highest", "high")
DECAYS = (None, "cosine", "exponential")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A training by Adam, whose momenta are the method's.

    Parameters
    ----------
    steps : int
        Adam steps, at most.
    rate : float, optional
        Learning rate; by default the method's own.
    decay : {None, "cosine", "exponential"}
        How the rate falls over `steps`: not at all, as in the paper; to 0 along half a cosine; to a
        tenth, evenly in its logarithm, as in WIRE's code.
    batch : int, optional
        Samples drawn at random for a step, with replacement; by default every step sees all.
    seconds : float, optional
        Stop once training has taken this long.
    target : float, optional
        Stop once the paper's PSNR is reached, looked at where the log is written.
    every : int
        Steps between rows of the log.
    seed : int
        Of first weights and of batches.
    precision : {"highest", "high"}
        Of matrix products on CUDA: float32, or TF32. The first layer and encodings are always in
        float32.
    compiled : bool
        Activations by ``torch.compile``, one pass over memory each: up to three times faster on
        CUDA, for some seconds at first. Needs what torch needs for that (Triton, a C compiler).
    """

    steps: int = 1000
    rate: float | None = None
    decay: str | None = None
    batch: int | None = None
    seconds: float | None = None
    target: float | None = None
    every: int = 50
    seed: int = 0
    precision: str = "highest"
    compiled: bool = False

    def __post_init__(self) -> None:
        integers(steps=self.steps, every=self.every)
        if self.batch is not None:
            integers(batch=self.batch)
        given = {"rate": self.rate, "seconds": self.seconds, "target": self.target}
        positives(**{name: value for name, value in given.items() if value is not None})
        if self.precision not in PRECISIONS:
            raise ValueError(f"`precision` must be 'highest' or 'high'; got {self.precision!r}.")
        if self.decay not in DECAYS:
            raise ValueError(
                f"`decay` must be None, 'cosine' or 'exponential'; got {self.decay!r}."
            )
        if not is_integer(self.seed) or not 0 <= self.seed < 2**64:  # what torch takes
            raise ValueError(
                f"`seed` must be a whole number from 0 to 2**64 - 1; got {self.seed!r}."
            )

    def factor(self, k: int) -> float:
        """What the rate is multiplied by in step `k`, counted from 0."""
        part = min(k / self.steps, 1)
        if self.decay == "cosine":
            return (1 + math.cos(math.pi * part)) / 2
        return 0.1**part if self.decay == "exponential" else 1.0


USUAL = Schedule()
"""A thousand steps at the method's own rate, every one of them with all samples."""
