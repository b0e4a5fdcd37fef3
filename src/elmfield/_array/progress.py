"""Progress of long work: reporters, called with ``(stage, done, total)``.

Public functions take ``progress=``, which :func:`reporter` turns into one; silent by default.
"""

import sys
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from elmfield._array.typing import Progress
from elmfield.errors import need

if TYPE_CHECKING:
    from rich import progress as parts

WORDS = {
    "beam": "merging",
    "check": "checking",
    "fill": "filling",
    "fit": "fitting",
    "overview": "averaging",
    "render": "rendering",
    "save": "saving",
    "survey": "looking",
}


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def reporter(progress: Progress | bool | None) -> Progress:
    """Return what to call with (stage, done, total): nothing, a bar on stderr, or the caller's own.

    Parameters
    ----------
    progress : bool or callable
        False (or None) is silent; True draws a bar with rate and time left, gone when its work is
        done; a callable is called.
    """
    if progress is None or progress is False:
        return silent
    if progress is True:
        return Bar()
    if not callable(progress):
        told = "`progress` must be True, False or a callable of (stage, done, total)"
        raise TypeError(f"{told}; got {progress!r}.")
    return progress


class Bar:
    """A reporter that draws a bar per stage on stderr, until all stages are done."""

    def __init__(self) -> None:
        self._bars = _bars()
        self._stages: dict[str, parts.TaskID] = {}
        # Work that fails never reports its end: the cursor comes back when the reporter is deleted.
        self.close = weakref.finalize(self, self._bars.live.stop)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` steps of `total` are done."""
        bars = self._bars
        if stage not in self._stages:
            self._stages[stage] = bars.add_task(WORDS.get(stage, stage), total=total)
        bars.update(self._stages[stage], completed=done, total=total)
        if not bars.finished:
            bars.start()
            return
        bars.live.stop()
        for task in self._stages.values():  # the next array begins anew
            bars.remove_task(task)
        self._stages.clear()


@contextmanager
def bars(show: bool | None = None) -> Iterator[Progress]:
    """A reporter for the time of a ``with`` block.

    Parameters
    ----------
    show : bool, optional
        Whether to draw at all; by default only if stderr is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield silent
        return
    with closing(Bar()) as bar:
        yield bar


def _bars() -> "parts.Progress":
    """Bars on stderr with what is done, a rate and the time left; not started."""
    need("rich", "cli", "a progress bar")
    from rich import progress as parts  # takes 0.05 s
    from rich.console import Console
    from rich.text import Text

    class Rate(parts.ProgressColumn):
        """Steps per second."""

        def render(self, task: parts.Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="dim")

    return parts.Progress(
        *(parts.TextColumn("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn()),
        *(Rate(), parts.TimeRemainingColumn()),
        console=Console(stderr=True),
        transient=True,
        # A library must not put its own files in place of the caller's stdout and stderr.
        redirect_stdout=False,
        redirect_stderr=False,
    )
