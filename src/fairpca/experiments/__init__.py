"""Every table and figure of the paper, computed anew: one module each, and a resumable runner."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairpca._choices import EXPERIMENTS as NAMES

if TYPE_CHECKING:
    from fairpca.experiments._experiment import Cell, Experiment, Options
    from fairpca.experiments._methods import cov_weight_from_paper
    from fairpca.experiments._runner import EXPERIMENTS, run

# Imported when first used, so that the command line can name the choices without waiting.
_HOME = {
    "EXPERIMENTS": "fairpca.experiments._runner",
    "Cell": "fairpca.experiments._experiment",
    "Experiment": "fairpca.experiments._experiment",
    "Options": "fairpca.experiments._experiment",
    "cov_weight_from_paper": "fairpca.experiments._methods",
    "run": "fairpca.experiments._runner",
    "write_report": "fairpca.report",
}
__all__ = ["EXPERIMENTS", "NAMES", "Cell", "Experiment", "Options", "cov_weight_from_paper", "run"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fairpca.experiments' has no attribute {name!r}")
