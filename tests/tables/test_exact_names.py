"""Streams: columns are chosen by their very names, and what is no stream is refused in words."""

import numpy as np
import pyarrow as pa
import pytest

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_arrow

N = 200
rng = np.random.default_rng(0)
ODD = {"*": rng.normal(size=N), "^x.*$": rng.normal(size=N), "x1": rng.normal(size=N)}
TABLE = pa.table({**ODD, "g": ["f", "m"] * (N // 2)})


def polars_lazy():
    return pytest.importorskip("polars").from_arrow(TABLE).lazy()


def polars_frame():
    return pytest.importorskip("polars").from_arrow(TABLE)


def duckdb_relation():
    return pytest.importorskip("duckdb").from_arrow(TABLE)


@pytest.mark.parametrize("door", [polars_frame, polars_lazy, duckdb_relation])
@pytest.mark.parametrize("chosen", [["^x.*$", "*"], ["^x.*$"], ["*", "x1"]])
def test_names_are_not_patterns(door, chosen):
    found = moments_from_arrow(door(), ["g"], chosen)
    expected = moments_from_arrow(TABLE, ["g"], chosen)
    assert found.feature_names == tuple(chosen)
    np.testing.assert_allclose(found.pooled().covariance, expected.pooled().covariance, rtol=1e-12)


def test_a_function_that_opens_a_stream_is_fitted():
    fair = FairPCA(2).fit(TABLE.to_reader, sensitive_features=["g"])
    expected = FairPCA(2).fit(TABLE, sensitive_features=["g"])
    np.testing.assert_allclose(fair.components_, expected.components_, atol=1e-12)
    with pytest.raises(InvalidInputError, match="gave a int: it must open an Arrow stream"):
        FairPCA(2).fit(lambda: 1, sensitive_features=["g"])


def test_streams_are_not_transformed():
    fair = FairPCA(2).fit(TABLE, sensitive_features=["g"])
    for stream in (TABLE.to_reader(), TABLE.to_reader):
        with pytest.raises(InvalidInputError, match="read it into memory first"):
            fair.transform(stream)
    with pytest.raises(InvalidInputError, match="read it into memory first"):
        FairPCA(2).fit_transform(TABLE.to_reader(), sensitive_features=["g"])
