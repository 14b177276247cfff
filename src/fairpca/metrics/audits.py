"""Everything there is to say about a representation and its protected groups, in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._choices import FAMILIES
from fairpca.metrics._inputs import Inputs, check_inputs
from fairpca.metrics._result import DeltaResult
from fairpca.metrics.bounds import delta_bound, gaussian_bound
from fairpca.metrics.delta import delta_fairness
from fairpca.metrics.gaps import cov_gap, mean_gap, mmd2

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
        Upper bound of the true Δ for each result, None where the family has none.
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
                {**result.to_dict(), "bound": bound}
                for result, bound in zip(self.results, self.bounds, strict=True)
            ],
            "mean_gap": self.mean_gap,
            "cov_gap": self.cov_gap,
            "mmd2": self.mmd2,
            # JSON has no infinity.
            "gaussian_bound": self.gaussian_bound if np.isfinite(self.gaussian_bound) else None,
        }

    def __repr__(self) -> str:
        head = f"{'family':<8}{'method':<8}{'Δ':>7}{'null':>7}{'q95':>7}{'p':>8}{'cross':>7}"
        head += f"{'bound':>7}  largest for"
        lines = [f"{self.n_rows} rows, {self.n_components} components", head]
        for result, bound in zip(self.results, self.bounds, strict=True):
            cells = (
                _cell(result.value, 7),
                _cell(result.null_mean, 7),
                _cell(result.null_quantile, 7),
                _cell(result.p_value, 8),
                _cell(result.cross_fit_value, 7),
                _cell(bound, 7),
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


def _smallest_group(inputs: Inputs) -> int:
    signs = [c.signs for stratum in inputs.strata for c in stratum.comparisons]
    return min(int(min((s > 0).sum(), (s < 0).sum())) for s in signs)


def audit(
    U: Any,
    sensitive_features: Any,
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
) -> AuditReport:
    """Measure a representation by every family, with nulls and bounds.

    Parameters
    ----------
    U : array-like of shape (n, d)
        Raw features or any representation.
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
        Rows that Gaussian machines are trained on at most.
    random_state : int, optional
        Seed.

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
    inputs = check_inputs(U, sensitive_features, control_features, sample_weight)
    d = inputs.U.shape[1]
    shared = {"control_features": control_features, "sample_weight": sample_weight}
    arguments = {
        **shared,
        "cross_fit": cross_fit and _smallest_group(inputs) >= 4,
        "orthants": orthants or ("all" if d <= 3 else "one"),
        "max_samples": max_samples,
        "random_state": random_state,
    }
    results = [
        delta_fairness(
            inputs.U,
            sensitive_features,
            family=family,
            method=method,
            n_permutations=slow_permutations if slow else n_permutations,
            **arguments,
        )
        for family, method, slow in _ROWS
        if family in families and not (d == 1 and method == "search" and family == "linear")
    ]
    bounds = [
        None
        if result.family == "rbf"
        else delta_bound(result, sum(result.worst.n_rows), d, confidence)
        for result in results
    ]
    return AuditReport(
        n_rows=len(inputs.U),
        n_components=d,
        results=tuple(results),
        bounds=tuple(bounds),
        confidence=confidence,
        mean_gap=mean_gap(inputs.U, sensitive_features, **shared),
        cov_gap=cov_gap(inputs.U, sensitive_features, **shared),
        mmd2=mmd2(inputs.U, sensitive_features, **shared),
        gaussian_bound=gaussian_bound(inputs.U, sensitive_features, **shared),
    )
