"""What can be observed of a function: rows for :func:`elmfield.fit_observations`.

>>> from elmfield import observe as ob
>>> ob.means([0.0], [31.0], [4.5])
Observation(kind='means', noise=0.0)
"""

from elmfield.fit.observations.observation import (
    Observation,
    blurred,
    derivatives,
    divergence,
    equation,
    gaussian,
    lines,
    means,
    operator,
    values,
)

__all__ = [
    "Observation",
    "blurred",
    "derivatives",
    "divergence",
    "equation",
    "gaussian",
    "lines",
    "means",
    "operator",
    "values",
]
