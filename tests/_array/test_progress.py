"""Reporters: silent unless asked, the caller's own, or a bar."""

import gc
import io
import sys

import pytest

from elmfield._array.progress import Bar, bars, reporter, silent
from elmfield.errors import MissingExtraError

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch):
    """A terminal in place of stderr, which keeps what was drawn on it.

    Not a fixture: pytest puts its own stderr in place after those are made.
    """
    drawn = Terminal()
    monkeypatch.setattr(sys, "stderr", drawn)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return drawn


@pytest.mark.parametrize("quiet", [None, False])
def test_silent_unless_asked(quiet, capsys):
    assert reporter(quiet) is silent
    reporter(quiet)("fit", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_callable_is_called():
    seen = []
    own = lambda *step: seen.append(step)  # noqa: E731
    assert reporter(own) is own
    reporter(own)("fit", 1, 2)
    assert seen == [("fit", 1, 2)]


@pytest.mark.parametrize("wrong", [1, "yes", [], 0])
def test_anything_else_is_refused(wrong):
    with pytest.raises(TypeError, match=r"`progress` must be True, False or a callable of \(stage"):
        reporter(wrong)


def test_true_draws_a_bar_until_all_is_done(monkeypatch, capsys):
    terminal = on_terminal(monkeypatch)
    report = reporter(True)
    assert terminal.getvalue() == ""  # nothing before the work begins
    for turn in range(2):
        for k in range(4):
            report("fit", k + 1, 4)
        text = terminal.getvalue()
        assert "fitting" in text
        assert "4/4" in text
        assert text.count(HIDE) == text.count(SHOW) == turn + 1
    assert sys.stderr is terminal  # not replaced
    assert capsys.readouterr().out == ""


@pytest.mark.thorough
def test_work_that_fails_gives_the_cursor_back(monkeypatch):
    terminal = on_terminal(monkeypatch)
    report = reporter(True)
    report("fit", 1, 4)
    assert terminal.getvalue().count(SHOW) == 0
    del report
    gc.collect()
    assert terminal.getvalue().count(SHOW) == 1


def test_bars_end_with_their_block(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with bars() as report:
        assert isinstance(report, Bar)
        report("fit", 1, 4)
        report("save", 1, 2)
    assert "saving" in terminal.getvalue()
    assert terminal.getvalue().count(HIDE) == terminal.getvalue().count(SHOW) == 1
    with bars(False) as report:
        assert report is silent


def test_no_bars_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with bars() as report:
        assert report is silent
    reporter(True)("fit", 1, 1)
    assert sys.stderr.getvalue() == ""


def test_without_rich_the_extra_is_named(monkeypatch):
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'elmfield\[cli\]'"):
        reporter(True)
