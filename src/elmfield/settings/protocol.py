"""What a fit asks of settings, and the targets that a caller may set."""

from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from elmfield._array import checks
from elmfield._array.backend import to_numpy
from elmfield._array.checks import USUAL_EFFORT, is_integer, is_number, is_whole
from elmfield._array.typing import Array, Floats
from elmfield.local.bases import DenseWeights, WaveModel
from elmfield.local.model import Basis
from elmfield.partition import Partition
from elmfield.samples import Grid, View

CODED = ("psnr", "max_error", "bits", "bytes")
"""Targets that are met by coding samples, where a field keeps these."""
KINDS = (*CODED, "coefficients", "per_region")


@dataclass(frozen=True)
class Target:
    """A target of a fit: a PSNR in dB, a largest error, a size, or a number of coefficients.

    Parameters
    ----------
    kind : {"psnr", "max_error", "bits", "bytes", "coefficients", "per_region"}
        Which of them; bits are those of a sample.
    value : float
        How much.
    effort : int
        Of coding samples: from 1, fast, to 9, small.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.smooth(max_error=0.5).target
    Target(kind='max_error', value=0.5, effort=5)
    """

    kind: str
    value: float
    effort: int = USUAL_EFFORT

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, KINDS)
        checks.check_effort(self.effort)
        checks.positive(self.kind, self.value)
        if self.kind in ("bytes", "coefficients", "per_region") and not is_whole(self.value):
            raise ValueError(f"`{self.kind}` must be a whole number; got {self.value!r}.")
        if not isinstance(self.value, (int, float)):  # float32, for instance, has no 1e150
            plain = int(self.value) if is_integer(self.value) else float(self.value)
            object.__setattr__(self, "value", plain)

    @classmethod
    def one_of(cls, effort: int | None = None, **asked: float | None) -> "Target | None":
        """The one target among those that are not None; None if there is none."""
        given = checks.at_most_one(**asked)
        if effort is not None and (given is None or given[0] not in CODED):
            raise ValueError(
                f"`effort` is that of coding samples; got effort={effort!r} without psnr, "
                "max_error, bits or bytes. Ask for one of these, or leave it out."
            )
        return None if given is None else cls(*given, USUAL_EFFORT if effort is None else effort)

    @property
    def is_coded(self) -> bool:
        """Whether it is met by coding samples, where a field keeps these."""
        return self.kind in CODED


@dataclass(frozen=True, eq=False)
class NoiseMap:
    """Standard deviations of noise, one for each sample; equal to itself only."""

    values: Floats = field(repr=False)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Floats:
        return self.values


Noise = float | bool | str | tuple[float, ...] | NoiseMap
"""Whether noise is taken out: a standard deviation, one for each channel or sample, "poisson"."""


def parse_noise(given: float | bool | str | Array) -> Noise:
    """What a caller says about noise, checked."""
    if given is True or given is False or (isinstance(given, str) and given == "poisson"):
        return given
    if is_number(given) and given > 0:
        return given
    if not isinstance(given, (str, bytes)) and np.ndim(given) > 0:
        levels = np.asarray(to_numpy(given))
        levels = levels.astype(np.float64) if levels.dtype.kind in "iuf" else np.zeros(1)
        if levels.size and np.isfinite(levels).all() and (levels > 0).all():
            return tuple(levels.tolist()) if isinstance(given, tuple) else NoiseMap(levels)
    raise ValueError(
        "`denoise` must be True, False, 'poisson' for counts, or the noise's standard deviation, "
        "above 0: a number, one for each channel, or an array like the samples; got "
        f"{checks.shown(given)}."
    )


def with_levels(settings: "Settings", levels: tuple[float, ...]) -> "Settings":
    """Settings with the levels of noise that were found, one for each channel."""
    if not min(levels) > 0 or not is_dataclass(settings):
        return settings
    noise = levels[0] if len(set(levels)) == 1 else levels
    return replace(settings, denoise=noise)


@runtime_checkable
class Settings(Protocol):
    """Everything `fit` asks of a preset."""

    @property
    def centred(self) -> bool:
        """Whether each channel's mean is taken off before fitting."""

    @property
    def target(self) -> Target | None:
        """The target that is met with as few numbers as possible; None to keep all."""

    @property
    def denoise(self) -> "Noise":
        """Whether noise is taken out; a number is its standard deviation in the caller's units."""

    @property
    def clip(self) -> bool:
        """Whether what is filled in and denoised stays within the limits of the samples."""

    @property
    def samples(self) -> str:
        """What samples are: "points", values at points, or "means" over their cells."""

    @property
    def fill_order(self) -> float | None:
        """Order of the energy by which missing samples are filled before the fit, a linear map.

        None lets the boxes around them choose what they believe.
        """

    @property
    def is_resolved(self) -> bool:
        """Whether nothing is left to be decided by looking at the samples."""

    @property
    def is_linear(self) -> bool:
        """Whether resolved settings treat every channel on its own, and as a linear map."""

    def resolve(self, view: View) -> "Settings":
        """These settings with every choice made that depends on the samples.

        A few of these are enough to look at: those of :meth:`probe_grids`, and some of all.
        """

    def probe_grids(self, shape: Sequence[int]) -> tuple[Grid, ...]:
        """The samples that `resolve` looks at, for an array of this shape, channels last."""

    @property
    def own_samples(self) -> bool:
        """Whether a merged region is fitted to the samples its window touches, not to its box.

        Least squares must see no others. Smooth modes are right to see the whole box: more is
        known, and the functions are the same.
        """

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """The regular partition of an array of this shape."""

    def adopt(self, partition: Partition) -> Partition:
        """A partition that the caller gave, as these settings use it.

        Raises ValueError where the settings say something that the partition settles.
        """

    def model(
        self, box: tuple[int, ...], inside: Array | None, like: Array
    ) -> Basis | DenseWeights | WaveModel:
        """The local model of a box of samples, ready for arrays like `like`.

        `inside`, booleans of the box's shape, says which samples count; None for all.
        """
