"""Reporters: what long work tells while it runs.

A reporter is called with ``(stage, done, total)``. :func:`bars` draws progress bars on stderr with
rate and time left; nobody is told anything unless somebody asks for it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from elmfield._array.typing import Progress

WORDS = {"fit": "fitting", "save": "saving", "render": "rendering", "beam": "merging"}


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""


@contextmanager
def bars(show: bool | None = None) -> Iterator[Progress]:
    """A reporter that draws one bar per stage while the block runs.

    Parameters
    ----------
    show : bool, optional
        Whether to draw at all; by default only if stderr is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bars,
    )

    class Rate(TextColumn):
        """Steps per second."""

        def __init__(self) -> None:
            super().__init__("{task.speed}")

        def render(self, task):  # type: ignore[no-untyped-def]
            from rich.text import Text

            return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="dim")

    drawn = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    known: dict[str, TaskID] = {}

    def report(stage: str, done: int, total: int) -> None:
        if stage not in known:
            known[stage] = drawn.add_task(WORDS.get(stage, stage), total=total)
        drawn.update(known[stage], completed=done, total=total)

    with drawn:
        yield report
