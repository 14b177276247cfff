"""A table too large for memory, or for one machine, becomes GroupMoments; nothing else.

Everything after the moments is small and local: `FairPCA.fit_moments`. The way back, rows to
component columns, is `transform_parquet`, `transform_spark`, and `FairPCA.transform` for Dask.
"""

try:
    import pyarrow  # noqa: F401
except ImportError:
    raise ImportError(
        "fairpca.distributed reads tables with pyarrow: pip install 'fairpca[arrow]'"
    ) from None

from fairpca.distributed._csv import moments_from_csv
from fairpca.distributed._dask import moments_from_dask
from fairpca.distributed._engines import column_names, moments_from_files
from fairpca.distributed._parquet import moments_from_parquet
from fairpca.distributed._spark import moments_from_spark, transform_spark
from fairpca.distributed._transform import transform_parquet

__all__ = [
    "column_names",
    "moments_from_csv",
    "moments_from_dask",
    "moments_from_files",
    "moments_from_parquet",
    "moments_from_spark",
    "transform_parquet",
    "transform_spark",
]
