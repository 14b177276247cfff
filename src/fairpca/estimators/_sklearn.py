"""What is used of scikit-learn beyond its documented interface, and its callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from fairpca.exceptions import GroupsError
from fairpca.solvers import Snapshot

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9 there are none

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in the place of scikit-learn's class."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Say what is missing."""
            raise ImportError("callbacks need scikit-learn 1.9 or newer; verbose=1 prints steps.")

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "safe_indexing", "with_callbacks"]  # as this module names them

SECONDS_BETWEEN_LINES = 1.0

_MOST_GROUPS = 50  # distinct values of a y that may be meant as groups


def fit_context(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Check the parameters against `_parameter_constraints`, and see groups passed as y."""
    checked = _fit_context(prefer_skip_nested_validation=True)(fit)

    @wraps(fit)
    def fit_or_explain(*rows: Any, **parts: Any) -> Any:
        before = dict(vars(rows[0]))
        try:
            return checked(*rows, **parts)
        except KeyboardInterrupt:
            # The estimator stays as it was: never the features of one fit and a basis of another.
            vars(rows[0]).clear()
            vars(rows[0]).update(before)
            raise
        except GroupsError as error:
            y: Any = rows[2] if len(rows) > 2 else parts.get("y")
            levels = set(np.ravel(y).tolist()) if np.ndim(y) else ()
            absent = error.parameter == "sensitive_features" not in parts
            if not absent or not 2 <= len(levels) <= _MOST_GROUPS:
                raise
            raise GroupsError(
                f"sensitive_features was not given, and y holds {len(levels)} groups, which fit "
                "ignores. If you passed the protected attribute as y, write sensitive_features=….",
                parameter="sensitive_features",
            ) from None

    return fit_or_explain


def at_least(smallest: int) -> Interval:
    """Constraint: a whole number, not below the smallest."""
    return Interval(Integral, smallest, None, closed="left")


def one_of(choices: Iterable[str]) -> StrOptions:
    """Constraint: one of several words."""
    return StrOptions(set(choices))


AT_LEAST_ONE = at_least(1)
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(RealNotInt, 0, 1, closed="neither")


@contextmanager
def fit_task(estimator: Any, max_subtasks: int | None) -> Iterator[Any]:
    """Announce a fit to scikit-learn's callbacks; the context is None if there are none."""
    if not hasattr(estimator, "_skl_callbacks"):
        yield None
        return
    context = estimator._init_callback_context(max_subtasks=max_subtasks)
    context.call_on_fit_task_begin(estimator=estimator)
    yield context
    context.call_on_fit_task_end(estimator=estimator)


@contextmanager
def propagate_callbacks(estimator: Any, context: Any, name: str, inner: Any) -> Iterator[None]:
    """Let the callbacks follow the steps of an inner estimator, as a task of the outer one."""
    if context is None:
        yield
        return
    task = context.subcontext(task_name=name)
    with task.propagate_callback_context(inner):
        task.call_on_fit_task_begin(estimator=estimator)
        yield
    task.call_on_fit_task_end(estimator=estimator)


def report_step(
    estimator: Any, context: Any, name: str, metadata: dict[str, Any] | None = None
) -> None:
    """Report one step to the callbacks, if there are any, as a task of its own."""
    if context is None:
        return
    task = context.subcontext(task_name=name)
    task.call_on_fit_task_begin(estimator=estimator)
    task.call_on_fit_task_end(estimator=estimator, metadata=metadata)


def solve_callback(estimator: Any, context: Any) -> Callable[[Snapshot], None]:
    """Return what a solver calls at every step: lines if verbose, and scikit-learn's callbacks."""
    start = last = time.monotonic()

    def on_step(snapshot: Snapshot) -> None:
        nonlocal last
        now = time.monotonic()
        if estimator.verbose and now - last >= SECONDS_BETWEEN_LINES:
            last = now
            known = f"objective {snapshot.objective:.6g}, bound {snapshot.bound:.6g}"
            if snapshot.gap < float("inf"):
                known += f", gap {100 * snapshot.gap:.2f} %"
            step = f"{snapshot.stage}, step {snapshot.iteration}"
            print(f"[{type(estimator).__name__}] {now - start:.0f} s, {step}: {known}", flush=True)
        names = ("iteration", "bound", "objective", "gap")
        metadata = {name: getattr(snapshot, name) for name in names}
        report_step(estimator, context, snapshot.stage, metadata)

    return on_step
