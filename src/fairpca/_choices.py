"""Words and limits that rooms and the command line share; light, so that help is there at once."""

SOLVERS = ("refined", "deflation", "tight", "paper")
COMPARE = ("one-vs-rest", "pairs", "reference")
FAMILIES = ("linear", "rbf", "cdf")
ATTACKERS = ("linear", "gaussian", "trees", "mlp")
EXPERIMENTS = ("table1", "table2", "table3", "table4", "table5", "figure1", "figure2", "figure3")
MISSING = ("error", "drop-rows")
ENGINES = ("local", "dask", "spark")
MAX_CELLS = 1000
"""Distinct combinations of groups that are accepted unless told otherwise."""
MAX_LEVELS = 1000
"""Distinct values of one categorical feature that are accepted unless told otherwise."""
