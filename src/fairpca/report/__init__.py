"""Pages and plots of estimators and audits."""

from fairpca.report._page import AuditPage
from fairpca.report.audit_reports import audit_report
from fairpca.report.displays import (
    BeforeAfterDisplay,
    CertificateDisplay,
    ContrastsDisplay,
    DeltaBar,
    DeltaDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    ScreeDisplay,
    SolveHistory,
    TradeoffDisplay,
)

__all__ = [
    "AuditPage",
    "BeforeAfterDisplay",
    "CertificateDisplay",
    "ContrastsDisplay",
    "DeltaBar",
    "DeltaDisplay",
    "GroupLossDisplay",
    "LoadingsDisplay",
    "ScreeDisplay",
    "SolveHistory",
    "TradeoffDisplay",
    "audit_report",
]
