"""The ``fairpca`` command: parse, call, show, exit code.

Nothing heavy is imported before `main` runs, so that a missing extra is one line and no traceback.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from typing import NoReturn

BAD_INPUT, FAILURE, INTERRUPTED = 2, 1, 130  # exit codes
_EXTRA = ("click", "rich", "pyarrow")


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 a failure, 2 bad input, 130 interrupted."""
    try:
        # A terminated run cleans up after itself like an interrupted one.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        _tolerate_encoding()
        for package in _EXTRA:
            if importlib.util.find_spec(package) is None:
                hint = "pip install 'fairpca[cli]'"
                print(f"fairpca: error: the command line needs {package}: {hint}", file=sys.stderr)
                sys.exit(BAD_INPUT)
        from fairpca.cli._app import app

        app.main(prog_name="fairpca")
    except KeyboardInterrupt:  # before click was there to catch it
        sys.exit(INTERRUPTED)
    sys.exit(0)


def _tolerate_encoding() -> None:
    # A column name outside the terminal's encoding must not end the run after all the work.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
