"""Words and limits that rooms and the command line share; light, so that help is there at once."""

SOLVERS = ("refined", "deflation", "tight", "paper")
OBJECTIVES = ("total", "worst-variance", "worst-loss")
"""Variance of all rows, or what the group that is served worst keeps or loses."""
COMPARE = ("one-vs-rest", "pairs", "reference")
METHODS = {
    "linear": ("svm", "search", "exact"),
    "rbf": ("svm",),
    "cdf": ("search", "sample", "exact"),
}
"""Methods of each family of classifiers, the default first."""
FAMILIES = tuple(METHODS)
"""Half-spaces, Gaussian-kernel SVMs and orthants."""
ATTACKERS = ("linear", "gaussian", "trees", "mlp")
"""Classifiers that are trained on one half of the rows and measured on the other."""
ADVERSARIES = ("rbf", "linear", "trees")
"""Classifiers by which DeltaFairPCA is judged."""
MISSING = ("error", "drop-rows", "mean")
"""What happens where a feature is missing."""
MISSING_GROUPS = ("raise", "own")
"""What happens where the group of a row is missing."""
UNKNOWN = ("error", "ignore")
ENGINES = ("local", "dask", "spark")
MAX_CELLS = 1000
"""Distinct combinations of groups that are accepted unless told otherwise."""
MAX_LEVELS = 1000
"""Distinct values of one categorical feature that are accepted unless told otherwise."""
