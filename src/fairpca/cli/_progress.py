"""What is going on, on standard error, for runs longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

DELAY = 1.0


class Stages:
    """Shows the current stage and the time taken so far; silent during the first second.

    On a terminal a spinner that disappears at the end; elsewhere a plain line for each stage and,
    within a long stage, one each time the elapsed time has doubled.

    Parameters
    ----------
    enabled : bool
        False: nothing is shown at all.

    Examples
    --------
    >>> from fairpca.cli._progress import Stages
    >>> with Stages(enabled=True) as stages:
    ...     stages.begin("fitting")
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._stage = "starting"
        self._changed = threading.Condition()
        self._finished = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stages:
        self._start = time.monotonic()
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
        """Name what happens next.

        Parameters
        ----------
        stage : str
            For example ``"fitting"``.
        """
        with self._changed:
            self._stage = stage
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._finished, timeout=DELAY):
                return
        if sys.stderr.isatty():
            self._spin()
        else:
            self._tell()

    def _spin(self) -> None:
        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(self._stage)
            bar.tasks[0].start_time = self._start  # the silent second counts
            with self._changed:
                while not self._finished:
                    bar.update(task, description=self._stage)
                    self._changed.wait()

    def _tell(self) -> None:
        following, told = DELAY, ""
        with self._changed:
            while not self._finished:
                elapsed = time.monotonic() - self._start
                if self._stage != told or elapsed >= following:
                    click.echo(f"fairpca: {self._stage} ({elapsed:.0f} s)", err=True)
                    told, following = self._stage, max(2.0 * elapsed, DELAY)
                self._changed.wait(timeout=max(following - elapsed, 0.1))
