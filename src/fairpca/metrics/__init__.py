"""Measures of what a representation gives away about protected groups."""

from fairpca._choices import ADVERSARIES, FAMILIES
from fairpca.metrics._adversaries import AdversaryResult
from fairpca.metrics._audit_report import AuditReport, Headline, SmallGroup
from fairpca.metrics._classifiers import HalfSpaceRule, KernelRule, OrthantRule
from fairpca.metrics._group_loss import group_loss
from fairpca.metrics._intervals import HeldOut
from fairpca.metrics._result import DeltaComparison, DeltaPair, DeltaResult, NullSummary
from fairpca.metrics.audits import audit
from fairpca.metrics.bounds import delta_bound, gaussian_bound
from fairpca.metrics.decisions import DecisionReport, GroupRate, decision_rates
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
    "ADVERSARIES",
    "FAMILIES",
    "AdversaryResult",
    "AuditReport",
    "DecisionReport",
    "DeltaComparison",
    "DeltaPair",
    "DeltaResult",
    "FairScorer",
    "GroupRate",
    "HalfSpaceRule",
    "Headline",
    "HeldOut",
    "KernelRule",
    "NullSummary",
    "OrthantRule",
    "SmallGroup",
    "audit",
    "cluster_parity_std",
    "cov_gap",
    "decision_rates",
    "delta_bound",
    "delta_fairness",
    "delta_scorer",
    "explained_variance",
    "fair_scorer",
    "gaussian_bound",
    "group_loss",
    "mean_gap",
    "mmd2",
    "refit_within",
    "variance_scorer",
]
