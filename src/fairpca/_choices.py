"""Words and limits that packages and the command line share; light, so that help is quick."""

from typing import Literal, get_args

Missing = Literal["error", "drop-rows", "mean"]
Groupless = Literal["raise", "own", "unlabelled"]
Unknown = Literal["error", "ignore"]
Ungrouped = Literal["raise", "leave-out"]
Engine = Literal["dask", "spark"]

SOLVERS = ("refined", "deflation", "tight", "paper")
OBJECTIVES = ("total", "worst-variance", "worst-loss")
"""Variance of all rows, or of the group that keeps least or loses most."""
ROTATIONS = ("varimax",)
PATH = "path"
"""Of `n_nonzero`: rising numbers of non-zero loadings."""
COMPARE = ("one-vs-rest", "pairs", "reference")
METHODS = {
    "linear": ("svm", "search", "exact"),
    "rbf": ("svm",),
    "cdf": ("search", "sample", "exact"),
}
"""Methods of each family of classifiers, the default first."""
FAMILIES = tuple(METHODS)
"""Half-spaces, Gaussian-kernel SVMs and orthants."""
HELD_OUT = "held_out"
"""Name of the column that says which rows were not fitted."""
PANEL = {
    "linear": "linear SVM",
    "gaussian": "Gaussian-kernel SVM",
    "trees": "boosted trees",
    "mlp": "small network",
}
"""Adversaries of an audit, trained on one half of the rows and measured on the other; names."""
ADVERSARIES = tuple(PANEL)
EFFORTS = ("quick", "standard", "thorough")
"""How much an audit measures."""
DELTA_FAMILIES = ("rbf", "linear", "trees", "panel")
"""Classifiers by which DeltaFairPCA measures Δ."""
MISSING: tuple[Missing, ...] = get_args(Missing)
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
ENGINES: tuple[Engine, ...] = get_args(Engine)
GROUPLESS: tuple[Groupless, ...] = get_args(Groupless)
"""What happens to a row whose group is missing."""
UNGROUPED: tuple[Ungrouped, ...] = get_args(Ungrouped)
"""The same in an audit."""
MISSING_GROUPS = ("raise", "ignore")
"""What estimators do without groups."""
PENALTIES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
"""On the covariance gap, where several are tried."""
MIN_ROWS = 10
"""Rows of a cell that may be written to a file."""
MAX_CELLS = 1000
"""Distinct combinations of groups that are accepted by default."""
MAX_LEVELS = 1000
"""Distinct values of one categorical feature that are accepted by default."""
