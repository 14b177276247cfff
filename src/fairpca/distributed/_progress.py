"""How far a pass has come, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

Progress: TypeAlias = bool | Callable[[int, int], None]
"""True for a bar on standard error, or a function of the rows done and the rows in all."""

WIDTH = 24
SECONDS_BETWEEN = 0.1


class Bar:
    """Draws a bar, or calls a function, as rows are done.

    Parameters
    ----------
    total : int
        Rows in all; 0 where nobody knows.
    progress : bool or callable
        What the user asked for.
    stream : text stream, optional
        Where to draw; None: standard error.

    Examples
    --------
    >>> from fairpca.distributed._progress import Bar
    >>> with Bar(10, lambda done, total: print(done, "of", total)) as bar:
    ...     bar.add(4)
    ...     bar.add(6)
    4 of 10
    10 of 10
    """

    def __init__(self, total: int, progress: Progress, stream: TextIO | None = None) -> None:
        self.total = total
        self.progress = progress
        self.stream = stream or sys.stderr
        self.done = 0
        self._start = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self.progress is True:
            self._draw()
            self.stream.write("\n")
            self.stream.flush()

    def skip(self, rows: int) -> None:
        """Count rows that an earlier pass has done."""
        self.total -= rows

    def add(self, rows: int) -> None:
        """Count rows and show it."""
        self.done += rows
        if callable(self.progress):
            self.progress(self.done, self.total)
        elif self.progress and time.monotonic() - self._drawn > SECONDS_BETWEEN:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        seconds = max(self._drawn - self._start, 1e-9)
        rate = self.done / seconds
        text = f"{self.done:,} rows, {rate / 1e6:.2f} million/s"
        if self.total > 0:
            share = min(self.done / self.total, 1.0)
            left = (self.total - self.done) / rate if rate else 0.0
            filled = round(share * WIDTH)
            bar = "#" * filled + "." * (WIDTH - filled)
            text = f"[{bar}] {share:4.0%} of {self.total:,} rows, {rate / 1e6:.2f} million/s, "
            text += f"{left:.0f} s left"
        self.stream.write(f"\r{text:<79}")
        self.stream.flush()
