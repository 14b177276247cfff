"""The name that `fairpca.tables` had in 0.1.0; it stays."""

from fairpca.tables import (
    column_names,
    moments_from_csv,
    moments_from_dask,
    moments_from_files,
    moments_from_parquet,
    moments_from_spark,
    transform_parquet,
    transform_spark,
)

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
