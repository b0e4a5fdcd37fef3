"""The exceptions and warnings a caller may want to catch."""


class OutsideDomainError(ValueError):
    """A query lies outside the box on which the field is defined."""


class RankWarning(UserWarning):
    """Some hidden neurons repeat others; they were left out of the least-squares fit."""


class ChannelWarning(UserWarning):
    """An array looks like a picture in colour, and nobody said where its channels are."""


class StoreError(Exception):
    """A model file is damaged, is none, or could not be written."""


class StoreVersionError(StoreError):
    """A model file was written by a newer elmfield than this one."""


class MissingExtraError(ImportError):
    """A file format needs a package that is not installed."""
