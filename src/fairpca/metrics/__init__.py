"""Measures of how well protected groups can be predicted from a representation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairpca._choices import ADVERSARIES, EFFORTS, FAMILIES, PANEL
from fairpca.metrics._audit_report import AuditReport
from fairpca.metrics._inference import HeldOut
from fairpca.metrics._result import DeltaPair, DeltaResult, NullSummary, verdict
from fairpca.metrics.audits import audit
from fairpca.metrics.bounds import delta_bound, gaussian_bound
from fairpca.metrics.delta import delta_fairness
from fairpca.metrics.gaps import cov_gap, mean_gap, mmd2

if TYPE_CHECKING:
    from fairpca.metrics.decisions import DecisionReport, GroupRate, decision_rates
    from fairpca.metrics.quality import cluster_parity_std, explained_variance, group_loss
    from fairpca.metrics.scorers import FairScorer, refit_within

# Imported when first used: an audit does without them.
_LATER = {
    "decisions": ("DecisionReport", "GroupRate", "decision_rates"),
    "quality": ("cluster_parity_std", "explained_variance", "group_loss"),
    "scorers": ("FairScorer", "refit_within"),
}

__all__ = [
    "ADVERSARIES",
    "EFFORTS",
    "FAMILIES",
    "PANEL",
    "AuditReport",
    "DecisionReport",
    "DeltaPair",
    "DeltaResult",
    "FairScorer",
    "GroupRate",
    "HeldOut",
    "NullSummary",
    "audit",
    "cluster_parity_std",
    "cov_gap",
    "decision_rates",
    "delta_bound",
    "delta_fairness",
    "explained_variance",
    "gaussian_bound",
    "group_loss",
    "mean_gap",
    "mmd2",
    "refit_within",
    "verdict",
]


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"fairpca.metrics.{module}"), name)
    raise AttributeError(f"module 'fairpca.metrics' has no attribute {name!r}")
