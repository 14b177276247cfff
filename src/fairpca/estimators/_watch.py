"""Where a long solve stands: a line a second where asked for, and scikit-learn's callbacks."""

from __future__ import annotations

import time
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 1.0


class Watch:
    """The callback of a solve; `context` is scikit-learn's, or None where nobody listens."""

    def __init__(self, estimator, context):
        self._estimator, self._context = estimator, context
        self._start = self._last = time.monotonic()

    def __call__(self, snapshot):
        """Tell where the solve stands."""
        now = time.monotonic()
        if self._estimator.verbose and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            known = f"objective {snapshot.objective:.6g}, bound {snapshot.bound:.6g}"
            if snapshot.gap < float("inf"):
                known += f", gap {100 * snapshot.gap:.2f} %"
            name, elapsed = type(self._estimator).__name__, now - self._start
            step = f"{snapshot.stage}, step {snapshot.iteration}"
            print(f"[{name}] {elapsed:.0f} s, {step}: {known}", flush=True)
        figures = {
            "iteration": snapshot.iteration,
            "bound": snapshot.bound,
            "objective": snapshot.objective,
            "gap": snapshot.gap,
        }
        tell(self._estimator, self._context, snapshot.stage, figures)


@contextmanager
def fit_task(estimator, max_subtasks):
    """Tell scikit-learn's callbacks of a fit; the context is None where nobody listens."""
    if not hasattr(estimator, "_skl_callbacks"):
        yield None
        return
    context = estimator._init_callback_context(max_subtasks=max_subtasks)
    context.call_on_fit_task_begin(estimator=estimator)
    yield context
    context.call_on_fit_task_end(estimator=estimator)


@contextmanager
def handed_on(estimator, context, name, inner):
    """Let an inner estimator tell of its own steps, within a task of the outer one."""
    if context is None:
        yield
        return
    task = context.subcontext(task_name=name)
    with task.propagate_callback_context(inner):
        task.call_on_fit_task_begin(estimator=estimator)
        yield
    task.call_on_fit_task_end(estimator=estimator)


def tell(estimator, context, name, figures=None):
    """Hand one step to scikit-learn's callbacks, if there are any, as a task of its own."""
    if context is None:
        return
    task = context.subcontext(task_name=name)
    task.call_on_fit_task_begin(estimator=estimator)
    task.call_on_fit_task_end(estimator=estimator, metadata=figures)
