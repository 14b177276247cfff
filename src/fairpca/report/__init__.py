"""Pages and plots: of estimators and audits, and of the experiments beside the paper."""

from fairpca.report._figures import draw_figures
from fairpca.report._page import AuditPage
from fairpca.report._reproduction import write_report
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
    "draw_figures",
    "write_report",
]
