"""Measures of what a representation gives away about protected groups."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairpca._choices import FAMILIES, METHODS

if TYPE_CHECKING:
    from fairpca.metrics._classifiers import HalfSpaceRule, KernelRule, OrthantRule
    from fairpca.metrics._result import DeltaComparison, DeltaPair, DeltaResult, NullSummary
    from fairpca.metrics.audits import AuditReport, audit
    from fairpca.metrics.bounds import delta_bound, gaussian_bound
    from fairpca.metrics.delta import delta_fairness
    from fairpca.metrics.gaps import cov_gap, mean_gap, mmd2
    from fairpca.metrics.quality import cluster_parity_std, explained_variance
    from fairpca.metrics.scorers import (
        FairScorer,
        delta_scorer,
        fair_scorer,
        refit_within,
        variance_scorer,
    )

__all__ = [
    "FAMILIES",
    "METHODS",
    "AuditReport",
    "DeltaComparison",
    "DeltaPair",
    "DeltaResult",
    "FairScorer",
    "HalfSpaceRule",
    "KernelRule",
    "NullSummary",
    "OrthantRule",
    "audit",
    "cluster_parity_std",
    "cov_gap",
    "delta_bound",
    "delta_fairness",
    "delta_scorer",
    "explained_variance",
    "fair_scorer",
    "gaussian_bound",
    "mean_gap",
    "mmd2",
    "refit_within",
    "variance_scorer",
]

# Imported when first used, as in `fairpca` itself: scikit-learn takes seconds to load.
_NAMES = {
    "_classifiers": ("HalfSpaceRule", "KernelRule", "OrthantRule"),
    "_result": ("DeltaComparison", "DeltaPair", "DeltaResult", "NullSummary"),
    "audits": ("AuditReport", "audit"),
    "bounds": ("delta_bound", "gaussian_bound"),
    "delta": ("delta_fairness",),
    "gaps": ("cov_gap", "mean_gap", "mmd2"),
    "quality": ("cluster_parity_std", "explained_variance"),
    "scorers": (
        *("FairScorer", "delta_scorer", "fair_scorer"),
        *("refit_within", "variance_scorer"),
    ),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fairpca.metrics.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fairpca.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
