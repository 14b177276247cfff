"""A mistake in the names of columns is refused by every door in the same words."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from column_cases import Refused
from support import run_command

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_dask, moments_from_files

SLIPS = {
    "unknown": (
        {"sensitive": ["gender"]},
        "sensitive names ['gender'], which is not among the columns: they are 'a', ",
    ),
    "nearly known": ({"sensitive": ["G1"]}, "Did you mean 'g'?"),
    "unknown weight": (
        {"weight": "ww"},
        "weight names ['ww'], which is not among the columns: they are 'a', ",
    ),
    "named twice": ({"sensitive": ["g", "g"]}, "sensitive names ['g'] more than once."),
    "stratum": ({"control": ["g"]}, "['g'] are sensitive and control columns at the same time."),
    "weight": ({"weight": "g"}, "['g'] are sensitive and weight columns at the same time."),
    "numeric": ({"numeric": ["q"]}, "['q'] is not among the columns of sensitive: "),
}


TABLE = pd.DataFrame({"a": np.arange(60.0) ** 2, "b": np.arange(60.0) % 7})
TABLE["g"] = np.resize(["x", "y"], 60)


def lazily(table, fit):
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    return fit(dd.from_pandas(table, npartitions=3))


def write(table, path):
    table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
    return path


def fit_names(table, asked):
    parts = {"sensitive_features": "sensitive", "control_features": "control"}
    given = {name: asked.get(part) for name, part in parts.items()}
    model = FairPCA(1, cov_weight=0.0, numeric=asked.get("numeric"))
    return model.fit(table, sample_weight=asked.get("weight"), **given)


def type_roles(path, asked, *more):
    words = ["fit", path, "--features", "a,b", *more]
    for part, names in asked.items():
        words += [w for name in np.atleast_1d(names) for w in (f"--{part}", name)]
    result = run_command(*words)
    assert result.exit_code == 2, result.output
    raise Refused(result.stderr.strip().replace(": --", ": "))


ROLE_DOORS = {
    "pandas": lambda t, _, asked: fit_names(t, asked),
    "polars": lambda t, _, asked: fit_names(pl.from_pandas(t), asked),
    "pyarrow": lambda t, _, asked: fit_names(pa.Table.from_pandas(t), asked),
    "stream": lambda t, _, asked: fit_names(pa.Table.from_pandas(t).to_reader(), asked),
    "fit of dask": lambda t, _, asked: lazily(t, lambda d: fit_names(d, asked)),
    "dask": lambda t, _, asked: lazily(t, lambda d: moments_from_dask(d, **asked)),
    "csv": lambda t, folder, asked: moments_from_files(write(t, folder / "x.csv"), **asked),
    "command": lambda t, folder, asked: type_roles(write(t, folder / "x.csv"), asked),
}


@pytest.mark.parametrize(("slip", "words"), SLIPS.values(), ids=SLIPS)
@pytest.mark.parametrize("way", ROLE_DOORS)
def test_a_slip_in_the_roles_is_refused_in_the_same_words(way, slip, words, tmp_path):
    with pytest.raises(InvalidInputError) as error:
        ROLE_DOORS[way](TABLE, tmp_path, {"sensitive": ["g"], **slip})
    told = str(error.value)
    # Estimators have longer names for them.
    told = told.replace("sensitive_features", "sensitive").replace("sample_weight", "weight")
    assert words in told
    assert "\n" not in told
    if "command" not in way:
        named = {"numeric": "numeric", "control": "control_features", "weight": "sample_weight"}
        parameter = next((named[part] for part in slip if part in named), "sensitive_features")
        assert error.value.parameter == parameter
