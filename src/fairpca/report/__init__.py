"""Pages and plots of estimators and audits."""

from importlib import import_module
from typing import Any

# Imported when first used: a page needs half of the displays, and one display no page.
_HOME = {
    "AuditPage": "_page",
    "BeforeAfterDisplay": "_scores",
    "BiplotDisplay": "_loadings",
    "CertificateDisplay": "_variance",
    "ContrastsDisplay": "_groups",
    "DeltaDisplay": "_delta",
    "GroupLossDisplay": "_groups",
    "LoadingsDisplay": "_loadings",
    "ScreeDisplay": "_variance",
    "SolveHistory": "_variance",
    "TradeoffDisplay": "_tradeoff",
    "audit_report": "_audit_report",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fairpca.report' has no attribute {name!r}")
    return getattr(import_module(f"fairpca.report.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
