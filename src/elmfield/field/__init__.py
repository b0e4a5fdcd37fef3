"""Field: how regions become one function."""

from elmfield.field.blended import Blended, Group
from elmfield.field.field import Field
from elmfield.field.quality import Samples, Target, is_number, meet
from elmfield.field.report import Report

__all__ = ["Blended", "Field", "Group", "Report", "Samples", "Target", "is_number", "meet"]
