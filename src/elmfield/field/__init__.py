"""Field: how regions become one function."""

from elmfield.field.accuracy import Report
from elmfield.field.blend.blended import Blended, Group
from elmfield.field.coefficients.from_samples import FromSamples
from elmfield.field.coefficients.stored import Coefficients, Full, Ragged
from elmfield.field.drop_modes import meet
from elmfield.field.field import Field

__all__ = [
    "Blended",
    "Coefficients",
    "Field",
    "FromSamples",
    "Full",
    "Group",
    "Ragged",
    "Report",
    "meet",
]
