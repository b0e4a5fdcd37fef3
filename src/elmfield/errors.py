"""The exceptions and warnings a caller may want to catch."""


class OutsideDomainError(ValueError):
    """A query lies outside the box on which the field is defined."""


class RankWarning(UserWarning):
    """Some hidden neurons repeat others; they were left out of the least-squares fit."""
