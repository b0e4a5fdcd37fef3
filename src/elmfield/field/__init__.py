"""Field: how regions become one function."""

from elmfield.field.blended import Blended, Group
from elmfield.field.coefficients import Coefficients, Full, Ragged
from elmfield.field.field import Field
from elmfield.field.projected import Projected, projected, settled_by_samples
from elmfield.field.quality import meet
from elmfield.field.report import Report
from elmfield.field.sampled import Sampled, sampled
from elmfield.field.target import Target

__all__ = [
    "Blended",
    "Coefficients",
    "Field",
    "Full",
    "Group",
    "Projected",
    "Ragged",
    "Report",
    "Sampled",
    "Target",
    "meet",
    "projected",
    "sampled",
    "settled_by_samples",
]
