"""The one callback by which the library reports how far it is; only the command line draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fairpca.exceptions import InvalidInputError

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with how much is done and, where it is known, how much there is in all."""


class Counter:
    """Counts what is done and calls the callback, if there is one."""

    def __init__(self, total: int | None = None, progress: Progress | None = None) -> None:
        if progress is not None and not callable(progress):
            raise InvalidInputError(
                f"progress={progress!r}: give a function of what is done and what there is in all, "
                "such as print; only the command line draws a bar.",
                parameter="progress",
            )
        self.total, self.done = total, 0
        self._progress = progress

    def skip(self, count: int) -> None:
        """Leave out what was done before, or need not be done."""
        self.total = None if self.total is None else self.total - count

    def add(self, count: int = 1) -> None:
        """Count, and call the callback."""
        self.done += count
        if self._progress is not None:
            self._progress(self.done, self.total)
