"""Tables for the tests of passes over files, and what their moments must equal."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fairpca.moments import GroupMoments
from fairpca.tables import open_table, project_table

FEATURES = ["a", "b", "c", "d"]


def people(n=1200, seed=3, mean=0.0):
    """Features of deviation about 1, two attributes, a stratum and weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)), columns=FEATURES)
    frame += mean
    frame["sex"] = rng.choice(["f", "m"], n)
    frame["race"] = rng.integers(0, 3, n)
    frame["age"] = rng.normal(45.0, 12.0, n)
    frame["city"] = rng.choice(["north", "south"], n)
    frame["w"] = rng.uniform(0.0, 2.0, n) * (rng.random(n) > 0.1)
    return frame


def in_memory(frame, sensitive, control=None, weight=None, features=None, numeric=()):
    """Moments of the same rows by the path without files."""
    features = FEATURES if features is None else features
    return GroupMoments.from_arrays(
        frame[features],
        frame[list(sensitive)],
        None if control is None else frame[list(control)],
        None if weight is None else frame[weight],
        numeric=numeric,
    )


def assert_same_moments(found, expected, rtol=1e-10):
    """Equal columns, cells, counts and sums; sums relative to the deviations they come from."""
    assert found.feature_names == expected.feature_names
    assert found.attributes == expected.attributes
    assert found.numeric_attributes == expected.numeric_attributes
    assert found.controls == expected.controls
    assert list(found.table.cells) == list(expected.table.cells)
    for key, cell in found.table.cells.items():
        other = expected.table.cells[key]
        assert cell.n_rows == other.n_rows
        np.testing.assert_allclose(cell.weight, other.weight, rtol=rtol)
        np.testing.assert_allclose(cell.mean, other.mean, rtol=rtol, atol=rtol)
        x = np.sqrt(np.diag(other.scatter)) + 1e-300
        z = np.sqrt(other.z_scatter) + 1e-300
        np.testing.assert_array_less(np.abs(cell.scatter - other.scatter) / np.outer(x, x), rtol)
        np.testing.assert_allclose(cell.z_mean, other.z_mean, rtol=rtol)
        np.testing.assert_allclose(cell.z_scatter, other.z_scatter, rtol=rtol)
        np.testing.assert_array_less(np.abs(cell.cross - other.cross) / np.outer(z, x), rtol)
        scale = z[:, None, None] * x[:, None] * x
        np.testing.assert_array_less(np.abs(cell.third - other.third) / scale, rtol)


def write_files(frame, folder, sizes, row_group_size=100, **options):
    """Write consecutive slices of a frame as files part-00.parquet, …"""
    folder.mkdir(exist_ok=True)
    start = 0
    for number, size in enumerate(sizes):
        table = pa.Table.from_pandas(frame.iloc[start : start + size], preserve_index=False)
        path = folder / f"part-{number:02d}.parquet"
        pq.write_table(table, path, row_group_size=row_group_size, **options)
        start += size
    return folder


def by_engine(engine, source, sensitive, features=None, control=None, weight=None, **options):
    """Moments of files by Dask or Spark, or by this process."""
    open_options = {name: options.pop(name) for name in ("separator", "kind") if name in options}
    address = options.pop("address", None)
    table = open_table(source, **open_options)
    roles = table.assign(sensitive, features, control, weight, **options)
    if engine == "dask":
        from fairpca.tables.dask import moments_by_dask

        return moments_by_dask(table, roles, address)
    if engine == "spark":
        from fairpca.tables.spark import moments_by_spark

        return moments_by_spark(table, roles, address)
    return table.moments(roles)


def transform_files(model, source, target, filesystem=None, **options):
    """Write the scores of Parquet files; return the number of rows."""
    table = open_table(source, filesystem=filesystem)
    project_table(table, model, target, filesystem=filesystem, **options)
    return table.n_rows
