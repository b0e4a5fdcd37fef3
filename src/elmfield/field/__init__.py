"""Field: how regions become one function."""

from elmfield.field.accuracy import Report as Report
from elmfield.field.blend.blended import Blended as Blended
from elmfield.field.blend.blended import Group as Group
from elmfield.field.coefficients.from_samples import FromSamples as FromSamples
from elmfield.field.drop_modes import meet as meet
from elmfield.field.field import Field as Field
