"""FairPCA takes rows as they come, and needs no engine that is not used."""

import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from table_support import FEATURES, people

from fairpca import FairPCA


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "arrow chunks"])
def test_tables(kind):
    frame = people(300)
    whole = FairPCA(2).fit(frame[FEATURES].to_numpy(), sensitive_features=frame["sex"].to_numpy())
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    table = {
        "pandas": frame,
        "polars": pl.DataFrame(frame.to_dict("list")),
        "arrow": arrow,
        "arrow chunks": pa.concat_tables([arrow.slice(0, 100), arrow.slice(100)]),
    }[kind]
    features = table.select(FEATURES) if kind != "pandas" else table[FEATURES]
    fair = FairPCA(2).fit(features, sensitive_features=table["sex"])
    assert list(fair.feature_names_in_) == FEATURES
    np.testing.assert_allclose(
        fair.components_.T @ fair.components_, whole.components_.T @ whole.components_, atol=1e-9
    )
    np.testing.assert_allclose(fair.transform(features), fair.transform(frame[FEATURES]))


def test_nothing_large_is_imported_without_need():
    script = (
        "import sys; import fairpca, fairpca.estimators\n"
        "import numpy as np\n"
        "fairpca.FairPCA(1).fit(np.eye(6), sensitive_features=[0, 1] * 3)\n"
        "print([name for name in ('dask', 'distributed', 'pyspark') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
