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


def input_kind(X: Any) -> str:
    """Say how rows come: in "memory", as a "stream" of Arrow batches, or from "dask"."""
    # Readers, pyarrow datasets, polars LazyFrames, DuckDB relations, ADBC cursors and functions
    # that open one are streams, which are read by name only. No library is imported.
    if hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed"):
        return "dask"
    methods = ("__arrow_c_stream__", "collect_batches", "fetch_record_batch", "get_fragments")
    opens = callable(X) and not isinstance(X, type)
    is_stream = opens or any(hasattr(X, name) for name in methods)
    return "stream" if is_stream and not hasattr(X, "__array__") else "memory"
