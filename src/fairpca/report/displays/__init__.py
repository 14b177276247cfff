"""Pictures that hold their data and are drawn later; they need matplotlib and nothing else."""

from fairpca.report.displays._before_after import BeforeAfterDisplay
from fairpca.report.displays._certificate import CertificateDisplay, SolveHistory
from fairpca.report.displays._contrasts import ContrastsDisplay
from fairpca.report.displays._delta import DeltaBar, DeltaDisplay
from fairpca.report.displays._loadings import LoadingsDisplay
from fairpca.report.displays._scree import ScreeDisplay
from fairpca.report.displays._served import GroupLossDisplay
from fairpca.report.displays._tradeoff import TradeoffDisplay

__all__ = [
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
]
