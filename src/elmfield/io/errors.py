"""Files that cannot be read, and what is no fault of the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UnreadableError(ValueError):
    """A file is damaged, or not what its name says."""


class NoSuchArrayError(ValueError):
    """A file is in order, but which of its arrays is meant is not."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Whatever another library says about a file's bytes becomes an UnreadableError."""
    try:
        yield
    except (ImportError, MemoryError, UnreadableError, NoSuchArrayError):
        raise
    except Exception as error:  # each library has its own dozen ways to say it
        text = str(error).strip().rstrip(".") or type(error).__name__
        raise UnreadableError(f"{path.name} cannot be read as {what}: {text}.") from error
