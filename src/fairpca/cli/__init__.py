"""The ``fairpca`` command: parse, call, show, exit code.

Nothing heavy is imported before `main` runs, so that a missing extra is one line and no traceback.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from typing import NoReturn

BAD_INPUT, FAILURE, INTERRUPTED = 2, 1, 130  # exit codes


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 a failure, 2 bad input, 130 interrupted."""
    try:
        # A terminated run cleans up after itself like an interrupted one.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        _tolerate_encoding()
        check_packages("the command line", "click", "rich", "pyarrow")
        from fairpca.cli._app import app

        app.main(prog_name="fairpca")
    except ModuleNotFoundError as error:  # before there is a guard
        print(f"fairpca: error: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:  # before click was there to catch it
        sys.exit(INTERRUPTED)
    sys.exit(0)


def check_packages(user: str, *names: str) -> None:
    """Refuse to begin without a package that is needed later; the extra cli has them all."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"{user} needs {name}: pip install 'fairpca[cli]'", name=name)


def _tolerate_encoding() -> None:
    # A column name outside the terminal's encoding must not end the run after all the work.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
