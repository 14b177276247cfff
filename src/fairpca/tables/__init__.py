"""Tables that need not fit memory, or one machine: batches of Rows, sums of them, and the way back.

All of them become `GroupMoments` through one kernel; everything after that is small and local.
"""

from importlib import import_module
from typing import Any

# Imported when first used: whoever fits arrays needs neither pyarrow nor Dask.
_HOME = {
    "DaskRows": "dask",
    "Database": "_sql",
    "Roles": "_roles",
    "Table": "table",
    "check_target": "project",
    "lazy_transform": "dask",
    "moments_from_arrow": "table",
    "moments_from_dask": "dask",
    "moments_from_files": "table",
    "moments_from_spark": "spark",
    "open_query": "_sql",
    "open_table": "table",
    "project_into": "_sql",
    "project_table": "project",
    "sample": "dask",
    "transform_spark": "spark",
}
__all__ = [
    "Database",
    "Roles",
    "Table",
    "check_target",
    "is_lazy",
    "is_stream",
    "moments_from_arrow",
    "moments_from_dask",
    "moments_from_files",
    "moments_from_spark",
    "open_query",
    "open_table",
    "project_into",
    "project_table",
    "transform_spark",
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
    """Tell a Dask array or data frame from rows in memory, without importing Dask.

    See Also
    --------
    is_stream : Arrow batches.

    Examples
    --------
    >>> from fairpca.tables import is_lazy
    >>> is_lazy([[1.0]])
    False
    """
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def is_stream(X: Any) -> bool:
    """Tell rows that come in Arrow batches, and can be read by name only, from rows in memory.

    Readers, pyarrow datasets, polars LazyFrames, DuckDB relations, ADBC cursors and functions that
    open one are streams; frames and tables of pandas, polars and pyarrow are in memory.

    See Also
    --------
    is_lazy : Dask collections.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import is_stream
    >>> table = pa.table({"height": [1.6, 1.8]})
    >>> is_stream(table), is_stream(table.to_reader())
    (False, True)
    """
    methods = ("__arrow_c_stream__", "collect_batches", "fetch_record_batch", "get_fragments")
    opens = callable(X) and not isinstance(X, type)
    return (opens or any(hasattr(X, name) for name in methods)) and not hasattr(X, "__array__")
