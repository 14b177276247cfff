"""A value that is missing in any column, by any policy, against pandas on the rows used."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from table_support import assert_same_moments

from fairpca import FairPCA, GroupMoments
from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_arrow, open_table, project_table

PARTS = {
    "sensitive": ["sex", "age"], "features": ["x", "y", "count"], "control": ["city"],
    "weight": "w", "categorical": ["colour"], "unit": "home", "target": ["score", "label"],
}  # fmt: skip


def people(n=60):
    rng = np.random.default_rng(8)
    return pd.DataFrame(
        {
            "x": rng.normal(size=n) + 3.0,
            "y": rng.normal(size=n),
            "count": rng.integers(0, 9, n),
            "colour": rng.choice(["red", "blue", "grey"], n),
            "sex": rng.choice(["f", "m"], n),
            "age": rng.normal(40.0, 9.0, n),
            "city": rng.choice(["north", "south"], n),
            "w": rng.uniform(0.5, 2.0, n),
            "home": np.arange(n) // 3,
            "score": rng.normal(size=n),
            "label": rng.choice(["no", "yes"], n),
        }
    )


def with_nulls(frame, column, rows, kind):
    """An Arrow table in which a column has no value, as null or as NaN, in some rows."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    values = table[column].to_pylist()
    for row in rows:
        values[row] = None if kind == "null" else float("nan")
    place = table.column_names.index(column)
    is_number = kind == "NaN" or not isinstance(values[0], str)
    some = pa.array(values, pa.float64() if is_number else pa.string())
    return table.set_column(place, column, some)


def in_memory(frame, missing):
    """The same moments of a frame, with one-hot columns of pandas and its own means."""
    X = frame[["x", "y", "count"]].astype(float)
    for level in ("blue", "grey", "red"):
        X[f"colour={level}"] = (
            (frame["colour"] == level).where(frame["colour"].notna()).astype(float)
        )
    if missing == "mean":
        known = X.notna().mul(frame["w"], axis=0)
        X = X.fillna((X.fillna(0.0).mul(frame["w"], axis=0)).sum() / known.sum())
    labels = frame["label"].where(frame["label"].notna(), None)
    y = pd.DataFrame({"score": frame["score"], "label": labels})
    return GroupMoments.from_arrays(
        X, frame[["sex", "age"]], frame[["city"]], frame["w"], y=y, feature_names=list(X.columns)
    )


TEXT = ("colour", "sex", "city", "label")
CASES = [
    (column, kind)
    for column in people(9).columns
    for kind in ("null", "NaN")
    if column != "y" and not (kind == "NaN" and column in TEXT)
]


@pytest.mark.parametrize(("column", "kind"), CASES)
def test_missing_values_of_every_column(column, kind):
    frame, rows = people(), [5, 31, 32, 57]
    table = with_nulls(frame, column, rows, kind)
    holed = frame.astype({column: object if column in TEXT else float})
    holed.loc[rows, column] = None if holed[column].dtype == object else np.nan
    for missing in ("error", "drop-rows", "mean"):
        is_open = column in ("score", "label") or (
            missing == "mean" and column in ("x", "y", "count", "colour")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if missing != "drop-rows" and not is_open:
                with pytest.raises(InvalidInputError, match=f"{column}|sample_weight"):
                    moments_from_arrow(table, missing=missing, **PARTS)
                continue
            found = moments_from_arrow(table, missing=missing, **PARTS).complete()
            expected = in_memory(holed if is_open else holed.drop(index=rows), missing)
        assert_same_moments(found, expected, 1e-9)
        for key, cell in found.table.cells.items():
            other = expected.table.cells[key].targets
            assert cell.targets.n_rows == other.n_rows
            np.testing.assert_allclose(cell.targets.cross, other.cross, atol=1e-9)
            np.testing.assert_allclose(cell.targets.y_scatter, other.y_scatter, atol=1e-9)


@pytest.mark.parametrize("by_unit", [False, True])
@pytest.mark.parametrize("missing", ["drop-rows", "mean"])
def test_rows_held_out_are_those_that_are_marked(missing, by_unit, tmp_path):
    frame = people(120)
    frame.loc[::13, "x"] = np.nan
    frame.loc[::17, "colour"] = None
    table = open_table(pa.Table.from_pandas(frame, preserve_index=False))
    parts = {"sensitive": ["sex"], "features": ["x", "y"], "weight": "w", "categorical": "colour"}
    roles = table.assign(**parts, unit="home" if by_unit else None, missing=missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rest = replace(roles, hold_out=0.3)
        held_out = replace(rest, only_held_out=True)
        whole, fitted, tested = (table.moments(some) for some in (roles, rest, held_out))
        assert whole.n_samples == fitted.n_samples + tested.n_samples
        model = FairPCA(2, cov_weight=0.0).fit_moments(fitted.complete())
        out = project_table(
            table, model, tmp_path / "x.parquet", keep="*", held_out=rest, missing="mean"
        )
        marked = pd.read_parquet(out)
        rows, copied = table.rows_with(held_out, ["count", "w"])
    complete = frame[["x", "colour"]].notna().all(axis=1)
    assert (marked["held_out"].notna() == (complete | (missing == "mean"))).all()
    inside = marked["held_out"].eq(True).to_numpy(bool)
    assert inside.sum() == tested.n_samples == len(rows) > 10
    if by_unit:
        assert marked.groupby("home")["held_out"].nunique().max() == 1
    np.testing.assert_array_equal(copied["count"].to_numpy(), frame["count"][inside])
    part = frame[inside]
    X = pd.concat([part[["x", "y"]], *(
        (part["colour"] == level).where(part["colour"].notna()).astype(float)
        for level in ("blue", "grey", "red")
    )], axis=1)  # fmt: skip
    means = X.mul(part["w"], axis=0).sum() / X.notna().mul(part["w"], axis=0).sum()
    filled = X.fillna(0.0) + X.isna() * means
    np.testing.assert_allclose(rows.X, filled.to_numpy(), atol=1e-12)
    pooled = tested.complete().pooled()
    np.testing.assert_allclose(pooled.mean, np.average(filled, axis=0, weights=part["w"]))
