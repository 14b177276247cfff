"""Every table and figure of the paper, computed anew: one module each, and a resumable runner."""

from fairpca.experiments._experiment import Cell, Experiment, Options
from fairpca.experiments._protocol import cov_weight_from_paper
from fairpca.experiments._report import write_report
from fairpca.experiments._runner import EXPERIMENTS, run

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Experiment",
    "Options",
    "cov_weight_from_paper",
    "run",
    "write_report",
]
