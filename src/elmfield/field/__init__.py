"""Field: how regions become one function."""

from elmfield.field.blended import BATCH, Blended, Group
from elmfield.field.field import Field
from elmfield.field.report import Report

__all__ = ["BATCH", "Blended", "Field", "Group", "Report"]
