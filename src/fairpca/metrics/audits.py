"""Everything there is to say about a representation and its protected groups, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fairpca._choices import ADVERSARIES, FAMILIES, UNGROUPED
from fairpca._progress import Progress
from fairpca.exceptions import AuditInterrupted, InvalidInputError
from fairpca.metrics._audit_report import AuditReport
from fairpca.metrics._audit_steps import Audit, Options
from fairpca.metrics._group_loss import group_loss
from fairpca.metrics.decisions import decision_rates
from fairpca.rows import UNKNOWN_GROUP, Rows
from fairpca.rows._checks import dense_matrix
from fairpca.rows._pairs import known_rows


def audit(
    U: Any,
    sensitive_features: Any = None,
    *,
    families: Sequence[str] = FAMILIES,
    adversaries: Sequence[str] = ADVERSARIES,
    compare: str = "pairs",
    joint: bool = False,
    reference: Any = None,
    numeric: Iterable[str] = (),
    control_features: Any = None,
    sample_weight: Any = None,
    min_group: int = 30,
    budget: float = 60.0,
    n_permutations: int = 200,
    slow_permutations: int = 20,
    cross_fit: bool = True,
    orthants: str | None = None,
    confidence: float = 0.95,
    max_samples: int = 1000,
    random_state: int | None = None,
    missing_groups: str = "raise",
    decision: Any = None,
    score: Any = None,
    label: Any = None,
    positive: Any = None,
    original: Any = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Measure a representation by every family and adversary, with nulls, intervals and bounds.

    Parameters
    ----------
    U : array-like of shape (n, d), or Rows
        Raw features or any representation; `fairpca.rows.Rows` bring their own groups, strata
        and weights.
    sensitive_features : array-like or data frame
        Protected attributes. Numbers are groups up to and above their median, and are compared
        as in `FairPCA` for the gaps.
    families : sequence of str
        Which of "linear", "rbf" and "cdf" to compute.
    adversaries : sequence of str
        Which of "linear", "gaussian", "trees" and "mlp" to train on one half of the rows and
        measure on the other; attributes of several groups one against the rest.
    compare, joint, reference, control_features, sample_weight
        As in `delta_fairness`.
    numeric : iterable of str, default ()
        Names of attributes that are numbers whatever their type.
    min_group : int, default 30
        Pairs with a smaller group are listed, but are never the largest one of a result.
    budget : float, default 60
        Seconds of processor time; 0: no limit. What does not fit is done on a sample of rows, with
        fewer permutations, or not at all, and `AuditReport.cut` says so. The plan depends on the
        table and the budget only, so that results are the same on every machine that keeps to it.
    n_permutations : int, default 200
        Permutations for the linear SVM and for orthants.
    slow_permutations : int, default 20
        Permutations for the linear search and the Gaussian SVM, which repeat a costly fit.
    cross_fit : bool, default True
        Whether to add values on rows not trained on, where groups have at least four rows.
    orthants : {"one", "all"}, optional
        As in `delta_fairness`; "all" by default up to three components, "one" beyond.
    confidence : float, default 0.95
        Of the bounds and intervals.
    max_samples : int, default 1000
        Rows that Gaussian-kernel SVMs are trained on at most.
    random_state : int, optional
        Seed.
    missing_groups : {"raise", "leave-out"}, default "raise"
        What to do with rows of unknown group: refuse them, or count and leave them out.
    decision, score, label : array-like of shape (n,), optional
        What was decided about the rows and what was true; adds `decision_rates` to the report.
    positive : value, optional
        As in `decision_rates`.
    original : array-like of shape (n, p), optional
        The features that U represents, row by row; adds what each group loses (`group_loss`).
    progress : callable, optional
        Called with the number of steps that are done, and of all steps.

    Returns
    -------
    AuditReport
        ``to_dict()`` gives plain values.

    Raises
    ------
    AuditInterrupted
        On an interrupt; its ``report`` is what was done so far.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import audit
    >>> z = np.repeat([0, 1], 40)
    >>> U = np.random.default_rng(1).normal(size=(80, 2))
    >>> report = audit(U, z, families=("cdf",), adversaries=(), n_permutations=99)
    >>> bool(report.results[0].p_value > 0.05)
    True
    """
    options = Options(
        families=families,
        adversaries=adversaries if cross_fit else (),
        compare=compare,
        joint=joint,
        reference=reference,
        min_group=min_group,
        budget=budget,
        n_permutations=n_permutations,
        slow_permutations=slow_permutations,
        cross_fit=cross_fit,
        orthants=orthants,
        confidence=confidence,
        max_samples=max_samples,
        random_state=0 if random_state is None else random_state,
    )
    if missing_groups not in UNGROUPED:
        raise InvalidInputError(
            f"missing_groups must be {' or '.join(map(repr, UNGROUPED))}, not {missing_groups!r}.",
            parameter="missing_groups",
        )
    unknown = UNKNOWN_GROUP if missing_groups == "leave-out" else None
    parts = (sensitive_features, control_features, sample_weight)
    given = Rows.read_dense(U, *parts, numeric=numeric, unknown=unknown)
    steps = Audit(given.counted(), options.checked())
    # Cheap, and the way to find a wrong column before the budget is spent: all this comes first.
    beside: dict[str, Any] = {"unknown": _unknown(given)}
    if original is not None:
        beside["losses"] = _losses(given, original, joint)
    if not (decision is None and score is None and label is None):
        beside["decisions"] = decision_rates(
            decision,
            given.binarized_at_median(),
            score=score,
            label=label,
            positive=positive,
            sample_weight=given.weights,
            min_group=min_group,
            confidence=confidence,
        )
    try:
        return replace(steps.run(progress), **beside)
    except AuditInterrupted as stopped:
        raise AuditInterrupted(replace(stopped.report, **beside)) from None


def _unknown(rows: Rows) -> dict[str, int]:
    columns = rows.groups.categorical if rows.groups is not None else ()
    left = {column.name: int((~known_rows(column)).sum()) for column in columns}
    return {name: count for name, count in left.items() if count}


def _losses(rows: Rows, original: Any, joint: bool) -> dict[str, list[Any]]:
    features = dense_matrix(original, "original")
    if len(features) != len(rows.X):
        raise InvalidInputError(
            f"original has {len(features)} rows, but U has {len(rows.X)}.", parameter="original"
        )
    return group_loss(rows.with_features(features), U=rows.X, joint=joint)
