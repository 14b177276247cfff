"""Messages, notes and progress on standard error: one line each, harmless to a terminal."""

from __future__ import annotations

import re
import shlex
import sys
import threading
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import click

from fairpca._present import visible
from fairpca.exceptions import FairnessWarning, InvalidInputError, LongFitWarning, bounded

LONGEST = 1000  # characters of one message; what is longer loses its middle
DELAY = 1.0  # seconds before anything is said about progress

# The options that do not have the name of the parameter they set.
RENAMED = {
    "n_components": "components",
    "n_nonzero": "nonzero",
    "sensitive_features": "sensitive",
    "control_features": "control",
    "sample_weight": "weight",
    "overwrite": "force",
    "units": "unit",
    "y": "target",
    "families": "family",
    "family": "adversary",
    "random_state": "seed",
}

# The others that messages name.
SAME = (
    *("compare", "cov_tol", "cov_weight", "delta", "joint", "max_cells", "max_iter", "max_levels"),
    *("mean_tol", "min_group_size", "objective", "reference", "solver", "target_weight", "tol"),
)
# As in n_components=9, reference='z' and mean_tol; a single word may mean something else.
_NAMED = re.compile(
    rf"(?<![\w'\".-])({'|'.join((*RENAMED, *SAME))})\b"
    r"(?:=('[^']*'|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|True)(?![\w'])|(?![='\"(]))"
)


def one_line(message: str) -> str:
    """Return a message without line breaks and control characters, and not endless."""
    return bounded(visible(" ".join(message.split())), LONGEST)


def error_message(error: InvalidInputError, options: Collection[str]) -> str:
    """Name the option that sets the parameter concerned, as subject or in front of the message."""
    option, text = option_of(error.parameter or ""), as_options(error.advice(as_typed))
    if option not in options or text.startswith(f"{option} "):
        return text
    if error.is_subject:
        return f"{option} {text.removeprefix(f'{error.parameter} ')}"
    return f"{option}: {text}"


def as_options(message: str) -> str:
    """Write the parameters that a message of the library names as options.

    >>> from fairpca.cli._console import as_options
    >>> as_options("n_components=9 must be between 1 and n_features=8.")
    '--components 9 must be between 1 and 8 features.'
    """

    def typed(named: re.Match[str]) -> str:
        name, value = named.groups()
        if value is None:
            return option_of(name) if "_" in name else name
        return as_typed(name, True if value == "True" else value.strip("'"))

    return _NAMED.sub(typed, re.sub(r"\bn_features=(\d+)", r"\1 features", message))


def option_of(parameter: str) -> str:
    """Return the name of the option that sets a parameter."""
    return f"--{RENAMED.get(parameter, parameter).replace('_', '-')}"


def as_typed(parameter: str, value: Any) -> str:
    """Write a setting of the library as an option."""
    option = option_of(parameter)
    if value is True:
        return option
    names = value if isinstance(value, list) else [str(value)]
    texts = names if any("," in name for name in names) else [",".join(names)]
    return " ".join(f"{option} {shlex.quote(text)}" for text in texts)


@contextmanager
def running(options: dict[str, Any]) -> Iterator[tuple[Stages, list[str]]]:
    """Show the stages of a command; at its end print its notes and what the library warned of."""
    notes: list[str] = []
    caught: list[warnings.WarningMessage] = []
    with Stages(enabled=not options["quiet"]) as stages, warnings.catch_warnings():

        def show(message: Any, *where: Any, **of: Any) -> None:
            if isinstance(message, LongFitWarning):  # of use before the fit only
                stages.begin(f"fitting: {one_line(as_options(message.advice(as_typed)))}")
            else:
                caught.append(warnings.WarningMessage(message, *where, **of))

        warnings.simplefilter("always")
        warnings.showwarning = show
        yield stages, notes
    for entry in caught:
        if isinstance(entry.message, FairnessWarning):
            add_note(notes, as_options(entry.message.advice(as_typed)))
        elif entry.category.__name__ == "ConvergenceWarning":  # without importing scikit-learn
            add_note(notes, as_options(str(entry.message)))
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
    for note in () if options["no_notes"] else notes:
        click.echo(f"fairpca: note: {note}", err=True)


def add_note(notes: list[str], text: str) -> None:
    """Add a note on one line, unless it is there."""
    note = one_line(text)
    if note not in notes:
        notes.append(note)


class Stages:
    """Shows a stage as a bar on terminals, elsewhere as lines; a ``progress(done, total)``."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._delay = DELAY
        self._stage = ""
        self.done = 0
        self._total: int | None = None
        self._changed = threading.Condition()
        self._finished = False
        self._printed, self._next = "", 0.0  # the last stage on a line, and when the next is due
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stages:
        self._start = self._begun = time.monotonic()
        if self._enabled:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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
            self._print_line()
            self._changed.notify()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say how much of the stage is done, of how much where that is known."""
        if total and not done:  # what came before in this stage says nothing about the time left
            self._begun = time.monotonic()
        self.done, self._total = done, total or None

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _watch(self) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._finished, timeout=self._delay):
                return
            if sys.stderr.isatty():
                self._draw_bar()
                return
            while not self._finished:
                self._print_line()
                self._changed.wait(timeout=max(self._next - self._elapsed, 0.1))

    def _print_line(self) -> None:
        """Print a line if the stage is new or has taken long; nothing on a terminal."""
        elapsed = self._elapsed
        if not self._enabled or not self._stage or elapsed < self._delay or sys.stderr.isatty():
            return
        if self._stage != self._printed or elapsed >= self._next:
            click.echo(f"fairpca: {self._described()} ({elapsed:.0f} s)", err=True)
            self._printed, self._next = self._stage, max(2.0 * elapsed, DELAY)

    def _described(self) -> str:
        """Return the stage and how far it is; without an end the rows so far."""
        if not self.done:
            return self._stage
        if not self._total:
            return f"{self._stage}, {self.done:,} rows"
        share = self.done / self._total
        left = (time.monotonic() - self._begun) * (1.0 - share) / share
        return f"{self._stage}, {share:.0%}" + (f", about {left:.0f} s left" if left >= 1 else "")

    def _draw_bar(self) -> None:
        """Keep a bar up to date until the end; called with the lock held."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn()
        console = Console(stderr=True)
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
            task = bar.add_task(self._stage, total=None)
            bar.tasks[0].start_time = self._start  # the silent second counts
            while not self._finished:
                text = self._described()
                bar.update(task, description=text, completed=self.done, total=self._total)
                self._changed.wait(timeout=0.1)
