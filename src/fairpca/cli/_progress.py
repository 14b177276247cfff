"""What is going on, on standard error, for runs longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

import click

from fairpca._present import visible

DELAY = 1.0


class Stages:
    """Shows a stage as a bar on terminals, elsewhere as lines; it is a ``progress(done, total)``.

    >>> from fairpca.cli._progress import Stages
    >>> with Stages(enabled=True) as stages:
    ...     stages.begin("fitting")
    ...     stages(10, 20)
    """

    def __init__(self, enabled: bool, delay: float | None = None) -> None:
        self._enabled = enabled
        self._delay = DELAY if delay is None else delay
        self._stage = ""
        self.done = 0
        self._total: int | None = None
        self._changed = threading.Condition()
        self._finished = False
        self._told, self._following = "", 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stages:
        self._start = self._begun = time.monotonic()
        if self._enabled:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify()
        if self._enabled:
            self._thread.join()

    def begin(self, stage: str) -> None:
        """Name what happens next."""
        with self._changed:
            self._stage, self.done, self._total = visible(stage), 0, None
            self._begun = time.monotonic()
            self._tell()
            self._changed.notify()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say how much of the stage is done, of how much where that is known."""
        self.done, self._total = done, total or None

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _watch(self) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._finished, timeout=self._delay):
                return
            if sys.stderr.isatty():
                self._draw()
                return
            while not self._finished:
                self._tell()
                self._changed.wait(timeout=max(self._following - self._elapsed, 0.1))

    def _tell(self) -> None:
        """Print a line if the stage is new or has taken long; nothing on a terminal."""
        elapsed = self._elapsed
        if not self._enabled or not self._stage or elapsed < self._delay or sys.stderr.isatty():
            return
        if self._stage != self._told or elapsed >= self._following:
            click.echo(f"fairpca: {self._described()} ({elapsed:.0f} s)", err=True)
            self._told, self._following = self._stage, max(2.0 * elapsed, DELAY)

    def _described(self) -> str:
        """Return the stage and how far it is; without an end the rows so far."""
        if not self.done:
            return self._stage
        if not self._total:
            return f"{self._stage}, {self.done:,} rows"
        share = self.done / self._total
        left = (time.monotonic() - self._begun) * (1.0 - share) / share
        return f"{self._stage}, {share:.0%}" + (f", about {left:.0f} s left" if left >= 1 else "")

    def _draw(self) -> None:
        """Keep a bar up to date until the end; called with the lock held."""
        with _new_bar() as bar:
            task = bar.add_task(self._stage, total=None)
            bar.tasks[0].start_time = self._start  # the silent second counts
            while not self._finished:
                bar.update(
                    task,
                    description=self._described(),
                    completed=self.done,
                    total=self._total,
                )
                self._changed.wait(timeout=0.1)


def _new_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class KnownBar(BarColumn):
        """A bar only where the end is known."""

        def render(self, task: Any) -> Any:
            return Text("") if task.total is None else super().render(task)

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), KnownBar()
    shown = Console(stderr=True)
    return Progress(*columns, TimeElapsedColumn(), console=shown, transient=True)
