"""The command's entry point: streams and Ctrl-C are set up before anything is imported.

Importing the package takes a third of a second, and an interruption there would show a traceback.
"""

import errno
import io
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO


def main() -> None:
    """Run the command line and leave with its exit code."""
    _open_streams()
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else told to ignore it
    if hears:
        signal.signal(signal.SIGINT, _leave)
    try:
        from elmfield.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("The command needs click; pip install 'elmfield[cli]'.\n")
        sys.exit(4)

    if hears:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"Interrupted; nothing half-written was left behind.\n")
    os._exit(130)


class _Output(io.FileIO):
    """Standard output or standard error, whose reader may go away.

    Without a reader of its output the command ends, as other commands do, with code 0: what it was
    asked for has been done. That is decided here, not where an error arrives: click and rich turn
    it into code 1, and a broken connection to somewhere else is a failure. Messages that nobody
    reads are dropped.
    """

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # What is still in buffers goes nowhere; else Python complains when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if self.fileno() == 2:
                return len(data)
            closed = os.name == "nt" and error.errno == errno.EINVAL  # a closed pipe on Windows
            if isinstance(error, BrokenPipeError) or closed:
                raise SystemExit(0) from None
            raise


def _open_streams() -> None:
    """Give the command its three streams; those the caller has closed lead nowhere."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the lowest number that is free is given: this one
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or io.StringIO()
    sys.stdout = _output(sys.stdout, 1)
    sys.stderr = _output(sys.stderr, 2)


def _output(stream: TextIO | None, number: int) -> TextIO:
    if stream is not None and stream.isatty():
        return stream
    encoding = "utf-8" if stream is None else stream.encoding
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(number, "w", closefd=False)), encoding, line_buffering=number == 2
    )
