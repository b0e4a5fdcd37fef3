"""The command before anything is imported: Ctrl-C leaves quietly from the first moment on.

Importing the package takes a third of a second, and an interruption there would show a traceback.
"""

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line and leave with its exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # told to ignore it
        from elmfield.cli import main as run

        run()
        return
    signal.signal(signal.SIGINT, _leave)
    from elmfield.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"Interrupted; nothing half-written was left behind.\n")
    os._exit(130)
