"""The exceptions and warnings a caller may want to catch.

What to do about each: the page `errors` of the site, docs/errors.md.
"""

from importlib import import_module
from types import ModuleType


class OutsideDomainError(ValueError):
    """A query lies outside the box on which the field is defined.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> try:
    ...     ef.fit(np.eye(20))([30.0, 5.0])
    ... except ef.OutsideDomainError:
    ...     print("outside")
    outside
    """


class RankWarning(UserWarning):
    """Some hidden neurons repeat others; they were left out of the least-squares fit."""


class NoiseWarning(UserWarning):
    """The noise to be taken out is not white, and not all of it will be."""


class ChannelWarning(UserWarning):
    """An array looks like a picture in colour, and no channel axis was given."""


class StoreError(Exception):
    """A model file is damaged, is none, or could not be written.

    Examples
    --------
    >>> import elmfield as ef
    >>> from pathlib import Path
    >>> _ = Path("broken.elm").write_bytes(b"no model")
    >>> try:
    ...     ef.load("broken.elm")
    ... except ef.StoreError:
    ...     print("damaged, or none")
    damaged, or none
    """


class StoreVersionError(StoreError):
    """A model file was written by a newer elmfield than this one."""


class MissingExtraError(ImportError):
    """Something needs a package that is not installed; the message names the extra."""


def need(package: str, extra: str, purpose: str) -> ModuleType:
    """An optional package; MissingExtraError, naming the extra, if it is not installed."""
    try:
        return import_module(package)
    except ImportError as error:
        name, advice = package.split(".")[0], f"pip install 'elmfield[{extra}]'"
        raise MissingExtraError(f"{purpose} needs {name}; {advice}.") from error
