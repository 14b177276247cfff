"""Pages and plots: what the experiments found, beside what the paper prints."""

from fairpca.report._figures import draw_figures
from fairpca.report._reproduction import write_report

__all__ = ["draw_figures", "write_report"]
