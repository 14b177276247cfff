"""Everything there is to say about a representation and its protected groups, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca._choices import FAMILIES
from fairpca.exceptions import InvalidInputError
from fairpca.metrics._measure import MIN_CROSS_FIT, measure
from fairpca.metrics._result import DeltaResult
from fairpca.metrics._rows import read_rows
from fairpca.metrics.bounds import delta_bound, largest_gaussian_bound
from fairpca.metrics.delta import check_dimension, check_settings
from fairpca.metrics.gaps import gaps_of, largest_mmd2, median_gamma
from fairpca.rows import Stratum

# Family and method, and whether a permutation repeats a costly fit.
_ROWS = (
    ("linear", "svm", False),
    ("linear", "search", True),
    ("rbf", "svm", True),
    ("cdf", "search", False),
)


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """Result of `audit`; ``print`` shows a table.

    Parameters
    ----------
    n_rows, n_components : int
        Size of the representation.
    results : tuple of DeltaResult
        One for each family and method.
    bounds : tuple of float or None
        For each result an upper bound, of what `bounds_of` says: "family", of the true Δ of the
        whole family, where the value is a supremum; "classifier", of the Δ that the cross-fitted
        classifier attains on new rows; None where there is neither.
    bounds_of : tuple of str or None
        What is bounded.
    confidence : float
        Probability with which each bound holds.
    mean_gap, cov_gap, mmd2, gaussian_bound : float
        The measures of those names.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import audit
    >>> z = np.repeat(["a", "b"], 30)
    >>> U = np.random.default_rng(0).normal(size=(60, 2)) + (z == "b")[:, None]
    >>> report = audit(U, z, families=("linear",), n_permutations=19, slow_permutations=0)
    >>> [round(float(result), 1) for result in report.results]
    [0.6, 0.6]
    """

    n_rows: int
    n_components: int
    results: tuple[DeltaResult, ...]
    bounds: tuple[float | None, ...]
    bounds_of: tuple[str | None, ...]
    confidence: float
    mean_gap: float
    cov_gap: float
    mmd2: float
    gaussian_bound: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "n_rows": self.n_rows,
            "n_components": self.n_components,
            "confidence": self.confidence,
            "delta": [
                {**result.to_dict(), "bound": bound, "bound_of": of}
                for result, bound, of in zip(self.results, self.bounds, self.bounds_of, strict=True)
            ],
            "mean_gap": self.mean_gap,
            "cov_gap": self.cov_gap,
            "mmd2": self.mmd2,
            # JSON has no infinity.
            "gaussian_bound": self.gaussian_bound if np.isfinite(self.gaussian_bound) else None,
        }

    def __repr__(self) -> str:
        head = f"{'family':<8}{'method':<8}{'Δ':>7}{'null':>7}{'q95':>7}{'p':>8}{'cross':>7}"
        head += f"{'bound':>7}{'of':>11}  largest for"
        lines = [f"{self.n_rows} rows, {self.n_components} components", head]
        for result, bound, of in zip(self.results, self.bounds, self.bounds_of, strict=True):
            cells = (
                _cell(result.value, 7),
                _cell(result.null_mean, 7),
                _cell(result.null_quantile, 7),
                _cell(result.p_value, 8),
                _cell(result.cross_fit_value, 7),
                _cell(bound, 7),
                f"{of or '–':>11}",
            )
            label = result.worst.label()
            lines.append(f"{result.family:<8}{result.method:<8}{''.join(cells)}  {label}")
        lines.append(
            f"mean gap {self.mean_gap:.4g}, covariance gap {self.cov_gap:.4g}, "
            f"MMD² {self.mmd2:.4g}, Gaussian bound {self.gaussian_bound:.3g}"
        )
        notes = dict.fromkeys(result.note for result in self.results if result.note)
        lines += [f"note: {note}" for note in notes]
        return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    return f"{'–' if value is None else f'{value:.3f}':>{width}}"


def audit(
    U: Any,
    sensitive_features: Any = None,
    *,
    families: tuple[str, ...] = FAMILIES,
    control_features: Any = None,
    sample_weight: Any = None,
    n_permutations: int = 200,
    slow_permutations: int = 20,
    cross_fit: bool = True,
    orthants: str | None = None,
    confidence: float = 0.95,
    max_samples: int = 1000,
    random_state: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Measure a representation by every family, with nulls and bounds.

    Parameters
    ----------
    U : array-like of shape (n, d), or Rows
        Raw features or any representation; `fairpca.rows.Rows` bring their own groups, strata
        and weights.
    sensitive_features : array-like or data frame
        Protected attributes.
    families : tuple of str
        Which of "linear", "rbf" and "cdf" to compute.
    control_features : array-like or data frame, optional
        Strata.
    sample_weight : array-like of shape (n,), optional
        Row weights.
    n_permutations : int, default 200
        Permutations for the linear SVM and for orthants.
    slow_permutations : int, default 20
        Permutations for the linear search and the Gaussian SVM, which repeat a costly fit.
    cross_fit : bool, default True
        Whether to add cross-fitted values; groups of fewer than four rows switch it off.
    orthants : {"one", "all"}, optional
        As in `delta_fairness`; "all" by default up to three components, "one" beyond.
    confidence : float, default 0.95
        Of the bounds.
    max_samples : int, default 1000
        Rows that Gaussian-kernel SVMs are trained on at most.
    random_state : int, optional
        Seed.
    progress : callable, optional
        Called with the number of statistics done and the number in all.

    Returns
    -------
    AuditReport
        ``to_dict()`` gives plain values.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import audit
    >>> z = np.repeat([0, 1], 40)
    >>> U = np.random.default_rng(1).normal(size=(80, 2))
    >>> report = audit(U, z, families=("cdf",), n_permutations=99)
    >>> bool(report.results[0].p_value > 0.05)
    True
    """
    _check_families(families)
    rows = read_rows(U, sensitive_features, control_features, sample_weight)
    strata = rows.pairs()
    d = rows.X.shape[1]
    folds = cross_fit and _smallest_group(strata) >= MIN_CROSS_FIT
    asked = [row for row in _ROWS if row[0] in families]
    if d == 1:
        asked = [row for row in asked if row[:2] != ("linear", "search")]
    results = []
    for family, method, slow in asked:
        count = slow_permutations if slow else n_permutations
        shape = orthants or ("all" if d <= 3 else "one")
        settings = check_settings(
            family, method, shape, None, None, max_samples, random_state, count
        )
        settings = replace(check_dimension(settings, d), confidence=confidence)
        results.append(measure(strata, settings, count, folds))
        if progress is not None:
            progress(len(results), len(asked))
    bounds = [_bound(result, confidence) for result in results]
    mean, cov = gaps_of(rows, "pairs", False, None)
    return AuditReport(
        n_rows=len(rows),
        n_components=d,
        results=tuple(results),
        bounds=tuple(bound for bound, _ in bounds),
        bounds_of=tuple(of for _, of in bounds),
        confidence=confidence,
        mean_gap=mean,
        cov_gap=cov,
        mmd2=largest_mmd2(strata, median_gamma(rows.X)),
        gaussian_bound=largest_gaussian_bound(strata),
    )


def _bound(result: DeltaResult, confidence: float) -> tuple[float | None, str | None]:
    """Bound what can be: the family where the value is a supremum, or a classifier on new rows."""
    if result.supremum:
        size = sum(result.worst.n_rows)
        return delta_bound(result, size, result.n_components, confidence), "family"
    if result.held_out is not None:
        return result.held_out.high, "classifier"
    return None, None


def _check_families(families: tuple[str, ...]) -> None:
    unknown = [family for family in families if family not in FAMILIES]
    if unknown or isinstance(families, str):
        raise InvalidInputError(
            f"families must be some of {FAMILIES}, not {families!r}.", parameter="families"
        )


def _smallest_group(strata: Sequence[Stratum]) -> int:
    signs = [pair.signs for stratum in strata for pair in stratum.pairs]
    return min(int(min((s > 0).sum(), (s < 0).sum())) for s in signs)
