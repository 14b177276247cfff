"""The validator of sensitive_features and control_features."""

import datetime
import enum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.rows import encode_groups, groups
from fairpca.rows.groups import sort_levels


def only(values, **options):
    """Encode a single column and return it."""
    groups = encode_groups(values, n_rows=len(values), **options)
    (column,) = groups.categorical + groups.numeric
    return column


@pytest.mark.parametrize(
    ("values", "levels", "codes"),
    [
        ([0, 1, 1], (0, 1), [0, 1, 1]),
        ([-1, 1, -1], (-1, 1), [0, 1, 0]),
        (np.array([0.0, 1.0, 0.0]), (0, 1), [0, 1, 0]),
        (np.array([1.0, -1.0], dtype=np.float32), (-1, 1), [1, 0]),
        (np.array([1.0, 5.0, 3.0, 1.0]), (1, 3, 5), [0, 2, 1, 0]),  # integers with a hole
        (pl.Series([2.0, 1.0, 3.0]), (1, 2, 3), [1, 0, 2]),
        (np.array([0.5, 1.5, 0.5]), (0.5, 1.5), [0, 1, 0]),
        ([True, False], (False, True), [1, 0]),
        (np.array([True, False]), (False, True), [1, 0]),
        (["b", "a", "b"], ("a", "b"), [1, 0, 1]),
        (np.array(["b", "a", "b"]), ("a", "b"), [1, 0, 1]),
        (np.array([b"b", b"a"]), ("a", "b"), [1, 0]),
        (np.array(["x", "y"], dtype=object), ("x", "y"), [0, 1]),
        (np.array([3, 1, 2], dtype=np.uint8), (1, 2, 3), [2, 0, 1]),
        ([np.int64(7), np.int64(5)], (5, 7), [1, 0]),
        ((10, 9), (9, 10), [1, 0]),
        (["b", 1, "a"], (1, "a", "b"), [2, 0, 1]),
        (np.array(["2021-01-02", "2021-01-01"], "M8[D]"), ("2021-01-01", "2021-01-02"), [1, 0]),
        (pd.Series(["b", "a"]), ("a", "b"), [1, 0]),
        (pd.Series([True, False], dtype="boolean"), (False, True), [1, 0]),
        (pd.Series([2, 1], dtype="Int64"), (1, 2), [1, 0]),
        (pd.Categorical(["b", "a", "b"], categories=["b", "a", "z"]), ("a", "b"), [1, 0, 1]),
        (pd.Series(["b", "a"], dtype="category"), ("a", "b"), [1, 0]),
        (pd.Index(["b", "a"]), ("a", "b"), [1, 0]),
        (pl.Series(["b", "a"]), ("a", "b"), [1, 0]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), ("a", "b"), [1, 0]),
        (pl.Series(["b", "a"], dtype=pl.Enum(["a", "b", "c"])), ("a", "b"), [1, 0]),
        (pl.Series([True, False]), (False, True), [1, 0]),
        (pa.chunked_array([["b"], ["a"]]), ("a", "b"), [1, 0]),
    ],
)
def test_labels_of_every_kind_become_sorted_levels_and_codes(values, levels, codes):
    column = only(values)
    assert column.levels == levels
    assert [type(level) for level in column.levels] == [type(level) for level in levels]
    np.testing.assert_array_equal(column.codes, codes)
    assert column.codes.dtype == np.intp


DATES = ["2021-01-01", "2021-01-02T10:30"]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2021-01-02T10:30", "2021-01-01"], "M8[s]"),
        np.array(["2021-01-02T10:30", "2021-01-01"], "M8[ns]"),
        [datetime.datetime(2021, 1, 2, 10, 30), datetime.date(2021, 1, 1)],
        pd.to_datetime(pd.Series(["2021-01-02 10:30", "2021-01-01 00:00"])),
        pl.Series(["2021-01-02 10:30", "2021-01-01 00:00"]).str.to_datetime(),
        pa.array([datetime.datetime(2021, 1, 2, 10, 30), datetime.datetime(2021, 1, 1)]),
    ],
    ids=lambda v: f"{type(v).__module__}.{type(v).__name__}",
)
def test_a_date_has_one_name_however_it_is_held(values):
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    assert list(only(values).levels) == DATES


def test_bytes_in_another_encoding_are_refused_and_not_merged():
    with pytest.raises(GroupsError, match=r"column 'town' holds bytes that are no UTF-8 .*decode"):
        encode_groups(pd.Series([b"\xe8", b"\xe9"], name="town"), n_rows=2)


@pytest.mark.parametrize("n_rows", [2, 4])
def test_groups_of_another_length_are_refused(n_rows):
    with pytest.raises(InvalidInputError, match=rf"3.*{n_rows}|{n_rows}.*3"):
        encode_groups(["a", "b", "a"], n_rows=n_rows)


def test_unused_categories_are_dropped():
    series = pd.Series(pd.Categorical(["b", "a"], categories=["a", "b", "never"]))
    assert only(series).levels == ("a", "b")


CATEGORIES = {
    "pandas": lambda values: pd.Series(values).astype("category"),
    "pandas, ordered": lambda values: pd.Series(
        pd.Categorical(values, categories=[*sorted(set(values))[::-1], 99], ordered=True)
    ),
    "polars": lambda values: pl.Series(list(map(str, values)), dtype=pl.Categorical),
    "polars enum": lambda values: pl.Series(
        list(map(str, values)), dtype=pl.Enum(sorted(set(map(str, values)), reverse=True))
    ),
}


@pytest.mark.parametrize("kind", CATEGORIES)
@pytest.mark.parametrize("labels", [[3, 1, 2], [0.5, 0.25, 0.75], list("cab")])
def test_categories_are_the_groups_of_their_labels(kind, labels, monkeypatch):
    values = [labels[i] for i in np.random.default_rng(0).integers(3, size=50)]
    plain = only(values if "pandas" in kind else [str(value) for value in values])
    series = CATEGORIES[kind](values)
    lengths = []
    encode = groups._encode_column
    monkeypatch.setattr(
        groups,
        "_encode_column",
        lambda column, *a: lengths.append(len(column.values)) or encode(column, *a),
    )
    column = only(series)
    assert lengths == [50, 3]  # only the categories in use are looked at
    if hasattr(plain, "levels"):
        assert column.levels == plain.levels
        np.testing.assert_array_equal(column.codes, plain.codes)
    else:
        np.testing.assert_array_equal(column.values, plain.values)


def test_intervals_keep_their_order_as_text():
    series = pd.cut(pd.Series([1.0, 15.0, 150.0]), [0, 10, 100, 1000])
    assert only(series).levels == ("(0, 10]", "(10, 100]", "(100, 1000]")


def test_enumerations_and_numpy_strings_become_plain_scalars():
    class Colour(enum.StrEnum):
        RED = "red"

    levels = only([Colour.RED, np.str_("blue")]).levels
    assert levels == ("blue", "red")
    assert {type(level) for level in levels} == {str}


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.1, 0.2, 0.3]),
        [1, 2.5, 3],
        pd.Series([0.1, 0.2, 0.3]),
        pd.Series([0.1, 0.2, 0.3], dtype="Float64"),
        pd.Series([0.1, 0.2, 0.3], dtype=object),
        pl.Series([0.1, 0.2, 0.3]),
    ],
)
def test_fractions_with_more_than_two_values_are_numbers(values):
    column = only(values)
    assert not hasattr(column, "levels")
    np.testing.assert_array_equal(column.values, np.asarray(values, dtype=float))
    assert column.values.dtype == np.float64


def test_categories_of_whole_floats_are_groups_like_integers():
    assert only(pd.Series(pd.Categorical([1.0, 2.0, 3.0]))).levels == (1, 2, 3)


@pytest.mark.parametrize("numeric", [["age"], "age", ("age",), {"age"}])
def test_numeric_is_forced_by_name(numeric):
    frame = pd.DataFrame({"age": [30, 40, 50], "sex": ["f", "m", "f"]})
    groups = encode_groups(frame, n_rows=3, numeric=numeric)
    assert [a.name for a in groups.numeric] == ["age"]
    np.testing.assert_array_equal(groups.numeric[0].values, [30.0, 40.0, 50.0])
    assert [a.name for a in groups.categorical] == ["sex"]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([0, 1], ("sensitive_feature",)),
        (pd.Series([0, 1], name="sex"), ("sex",)),
        (pd.Series([0, 1], name=3), ("3",)),
        (pl.Series("sex", [0, 1]), ("sex",)),
        (pl.Series([0, 1]), ("sensitive_feature",)),
        (np.zeros((2, 3), dtype=int), tuple(f"sensitive_feature_{i}" for i in range(3))),
        ([["a", 1], ["b", 2]], ("sensitive_feature_0", "sensitive_feature_1")),
        (pd.DataFrame({"sex": [0, 1], 7: [1, 0]}), ("sex", "7")),
        (pl.DataFrame({"sex": [0, 1], "race": ["a", "b"]}), ("sex", "race")),
        (pa.table({"sex": [0, 1], "race": ["a", "b"]}), ("sex", "race")),
    ],
)
def test_names_flow_through(values, names):
    assert encode_groups(values, n_rows=2).names == names


def test_a_series_named_zero_keeps_its_name():
    assert encode_groups(pd.Series([0, 1], name=0), n_rows=2).names == ("0",)


def test_unnamed_controls_are_named_after_their_argument():
    assert encode_groups([0, 1], n_rows=2, argument="control_features").names == (
        "control_feature",
    )
    table = np.array([[0, 1], [1, 0]])
    assert encode_groups(table, n_rows=2, argument="control_features").names == (
        "control_feature_0",
        "control_feature_1",
    )


def test_names_keep_the_order_of_the_columns_whatever_their_kind():
    frame = pl.DataFrame({"age": [0.5, 1.5, 2.5], "sex": ["f", "m", "f"], "iq": [1.5, 2.5, 0.5]})
    groups = encode_groups(frame, n_rows=3)
    assert groups.names == ("age", "sex", "iq")
    assert [a.name for a in groups.numeric] == ["age", "iq"]


def test_numbers_in_a_nested_list_are_not_turned_into_text():
    groups = encode_groups([["f", 1], ["m", 2]], n_rows=2)
    assert groups.categorical[1].levels == (1, 2)


def test_a_constant_column_and_no_rows_are_accepted():
    assert only(["a", "a"]).levels == ("a",)
    assert encode_groups([], n_rows=0).categorical[0].levels == ()
    assert encode_groups(np.empty(0), n_rows=0).categorical[0].levels == ()


MISSING = [
    ["a", None, "b"],
    [0.0, float("nan"), 1.0],
    np.array([0.0, np.nan, 1.0]),
    np.array(["a", None, "b"], dtype=object),
    np.array(["a", np.nan, "b"], dtype=object),
    np.array(["a", pd.NA, "b"], dtype=object),
    np.array([pd.Timestamp("2020"), pd.NaT, pd.Timestamp("2021")], dtype=object),
    np.array(["2020", "NaT", "2021"], "M8[D]"),
    np.ma.array([0, 1, 0], mask=[False, True, False]),
    pd.array(["a", None, "b"]),
    pd.Series(["a", None, "b"]),
    pd.Series(["a", None, "b"], dtype=object),
    pd.Series(["a", None, "b"], dtype="category"),
    pd.Series([1, None, 0], dtype="Int64"),
    pd.Series([True, None, False], dtype="boolean"),
    pd.Series([pd.Timestamp("2020"), pd.NaT, pd.Timestamp("2021")]),
    pl.Series(["a", None, "b"]),
    pl.Series([1, None, 0]),
    pl.Series([1.0, float("nan"), 0.0]),
    pa.chunked_array([["a", None, "b"]]),
]


@pytest.mark.parametrize(
    "values", MISSING, ids=lambda v: f"{type(v).__module__}.{type(v).__name__}"
)
def test_missing_values_are_named_and_counted(values):
    with pytest.raises(GroupsError, match=r"sensitive_features column .* has 1 missing value:"):
        encode_groups(values, n_rows=3)


def test_missing_values_name_the_column_and_the_argument():
    frame = pd.DataFrame({"sex": ["f", "m", "f"], "race": ["x", None, None]})
    with pytest.raises(GroupsError, match="control_features column 'race' has 2 missing values"):
        encode_groups(frame, n_rows=3, argument="control_features")


ERRORS = {
    "none": (None, {}, "sensitive_features is None"),
    "length": ([0, 1], {}, "has 2 rows but X has 3"),
    "frame length": (pd.DataFrame({"a": [0, 1]}), {}, "has 2 rows but X has 3"),
    "transposed": (np.zeros((1, 3)), {}, "has 1 rows but X has 3"),
    "scalar": (1, {}, "it has 0 dimensions"),
    "cube": (np.zeros((3, 1, 1)), {}, "it has 3 dimensions"),
    "dictionary": ({"a": [0, 1, 0]}, {}, r"0 dimensions \(type dict\)"),
    "ragged": ([[0, 1], [0], [1]], {}, r"holds values of type \['list'\]"),
    "ragged tuples": ([(0, 1), (0,), (1,)], {}, r"holds values of type \['tuple'\]"),
    "ragged arrays": ([np.zeros((2, 1)), np.zeros((2, 2))], {}, "not a rectangular array"),
    "no columns": (np.zeros((3, 0)), {}, "has no columns"),
    "empty frame": (pd.DataFrame(index=range(3)), {}, "has no columns"),
    "duplicates": (pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"]), {}, "occur more than once"),
    "same text": (
        pd.DataFrame(np.zeros((3, 2)), columns=["1", 1]),
        {},
        "occur more than once: '1'",
    ),
    "sparse": (sparse.csr_array(np.eye(3)), {}, "is a sparse matrix"),
    "lazy": (pl.LazyFrame({"a": [0, 1, 0]}), {}, r"is a lazy frame: call \.collect\(\)"),
    "complex": (np.array([1j, 0, 0]), {}, "has type complex128"),
    "infinite": (np.array([0.0, 1.0, np.inf]), {}, "has 1 infinite or undefined value:"),
    "infinite label": (np.array([np.inf, -np.inf, np.inf]), {}, "has 3 infinite"),
    "unknown numeric": ([0, 1, 0], {"numeric": ["age"]}, r"\['age'\] is not among the columns"),
    "not a number": (
        pd.Series(["a", "b", "c"], name="sex"),
        {"numeric": ["sex"]},
        "'sex' is declared numeric but cannot be read as numbers",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_unusable_groups_are_refused_with_a_reason(case):
    values, options, message = ERRORS[case]
    with pytest.raises(GroupsError, match=message) as caught:
        encode_groups(values, n_rows=3, **options)
    assert "sensitive_features" in str(caught.value)
    assert isinstance(caught.value, InvalidInputError)
    assert isinstance(caught.value, ValueError)


def test_sorting_levels_does_not_depend_on_the_order_given():
    mixed = ["b", 1, "a", 2.5]
    assert sort_levels(mixed) == sort_levels(mixed[::-1]) == (1, 2.5, "a", "b")
