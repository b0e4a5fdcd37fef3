"""Field: how regions become one function."""

from elmfield.field.blended import Blended, Group
from elmfield.field.coefficients import Coefficients, Full, Ragged
from elmfield.field.field import Field
from elmfield.field.quality import Target, meet
from elmfield.field.report import Report

__all__ = [
    "Blended",
    "Coefficients",
    "Field",
    "Full",
    "Group",
    "Ragged",
    "Report",
    "Target",
    "meet",
]
