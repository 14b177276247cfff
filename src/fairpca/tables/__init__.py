"""Tables that need not fit memory, or one machine: batches of Rows, sums of them, and the way back.

Files, Arrow tables, Dask collections and Spark tables become `GroupMoments` through one kernel;
everything after the moments is small and local (`FairPCA.fit_moments`). The way back, rows to
component columns, is `project_table`, `transform_parquet`, `transform_spark`, and
`FairPCA.transform` for Dask.
"""

from importlib import import_module
from typing import Any

# Imported when first used: whoever fits arrays needs neither pyarrow nor Dask.
_HOME = {
    "Roles": "_roles",
    "Table": "table",
    "check_target": "project",
    "open_table": "table",
    "project_table": "project",
    "transform_parquet": "project",
}
__all__ = [
    "Roles",
    "Table",
    "check_target",
    "open_table",
    "project_table",
    "transform_parquet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fairpca.tables' has no attribute {name!r}")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(
            "fairpca.tables reads tables with pyarrow: pip install 'fairpca[arrow]'"
        ) from None
    return getattr(import_module(f"fairpca.tables.{_HOME[name]}"), name)


def is_lazy(X: Any) -> bool:
    """Tell a Dask collection from rows in memory, without importing Dask.

    Parameters
    ----------
    X : object
        Rows.

    Returns
    -------
    bool
        Whether X is a Dask array or data frame.

    Examples
    --------
    >>> from fairpca.tables import is_lazy
    >>> is_lazy([[1.0]])
    False
    """
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")
