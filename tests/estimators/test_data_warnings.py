"""Silent wrong answers become words: each warning once, by name, and none on ordinary data."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.stats
from sklearn.pipeline import make_pipeline

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, GroupMoments, load_model
from fairpca.datasets import load_diabetes_sex
from fairpca.estimators._data_warnings import warn_of_empty_components
from fairpca.exceptions import (
    ApproximateKernelWarning,
    DominantFeatureWarning,
    EmptyComponentWarning,
    ExtremeRowsWarning,
    FairnessWarning,
    FewRowsWarning,
    GroupFeatureWarning,
    GroupsError,
    IdentifierWarning,
    IndexMismatchWarning,
    InfeasibleError,
    InvalidInputError,
    LongFitWarning,
    SmallGroupWarning,
)
from fairpca.tables import open_table


@pytest.fixture
def people():
    rng = np.random.default_rng(3)
    sex = rng.choice(["f", "m"], 300)
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    return frame.assign(a=frame["a"] + (sex == "f")), pd.Series(sex, name="sex")


def _said(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [(entry.category, str(entry.message)) for entry in caught]


COPIES = {
    "copy": lambda sex: {"code": (sex == "f") * 1.0},
    "one-hot": lambda sex: {"f": (sex == "f") * 1.0, "m": (sex == "m") * 1.0},
    "scaled": lambda sex: {"pay": 1e6 + 3.7 * (sex == "f")},
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_feature_that_is_a_function_of_the_group(people, copy):
    frame, sex = people
    added = COPIES[copy](sex)
    frame = frame.assign(**added)
    [(category, text)] = _said(lambda: FairPCA(2).fit(frame, sensitive_features=sex))
    assert category is GroupFeatureWarning
    assert all(repr(name) in text for name in added)
    assert "'a'" not in text
    table = open_table(pa.table({**frame.to_dict("list"), "sex": list(sex)}))
    moments = table.moments(table.assign("sex"))
    assert _said(lambda: FairPCA(2).fit_moments(moments))[0][0] is GroupFeatureWarning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", GroupFeatureWarning)  # it can be switched off
        FairPCA(2).fit(frame, sensitive_features=sex)


def test_a_function_of_strata_is_none_of_the_group(people):
    frame, sex = people
    income = np.arange(300) % 3
    given = {"sensitive_features": sex, "control_features": income}
    assert not _said(lambda: FairPCA(2).fit(frame.assign(i=income * 1.0), **given))
    joint = frame.assign(i=np.where(sex == "f", 1.0, -1.0))
    assert _said(lambda: FairPCA(2).fit(joint, **given))[0][0] is GroupFeatureWarning


def test_a_copy_of_a_number_and_of_a_name(people):
    frame, sex = people
    age = np.random.default_rng(0).normal(50, 9, 300)
    copied = frame.assign(years=0.01 * age)
    [(category, text)] = _said(lambda: FairPCA(2).fit(copied, sensitive_features=age))
    assert category is GroupFeatureWarning
    assert "'years'" in text
    noisy = frame.assign(sex=np.random.default_rng(1).normal(size=300))
    [(category, text)] = _said(lambda: FairPCA(2).fit(noisy, sensitive_features=sex))
    assert category is GroupFeatureWarning
    assert "'sex'" in text


@pytest.mark.parametrize("start", [0, 1, 10_000])
def test_identifiers(people, start, tmp_path):
    frame, sex = people
    numbers = np.random.default_rng(0).permutation(np.arange(start, start + 300))
    frame = frame.assign(number=numbers)
    model = FairPCA(2, standardize=True)
    [(category, text)] = _said(lambda: model.fit(frame, sensitive_features=sex))
    assert category is IdentifierWarning
    assert "'number'" in text
    frame.assign(sex=sex).to_parquet(tmp_path / "t.parquet", row_group_size=50)
    table = open_table(tmp_path / "t.parquet")
    [(category, _)] = _said(lambda: table.moments(table.assign("sex")))
    assert category is IdentifierWarning


def test_numbers_that_happen_to_differ_are_no_identifiers(people):
    frame, sex = people
    rng = np.random.default_rng(0)
    for salary in (rng.choice(10**6, 300, replace=False), rng.integers(18, 90, 300)):
        model = FairPCA(2, standardize=True)
        assert not _said(lambda m=model, s=salary: m.fit(frame.assign(s=s), sensitive_features=sex))
    wide = rng.choice(10**9, 300, replace=False)
    named = frame.assign(person_id=wide)
    assert _said(lambda: FairPCA(2, standardize=True).fit(named, sensitive_features=sex))


def test_text_that_is_different_in_every_row(people):
    frame, sex = people
    table = open_table(
        pa.table({"a": frame["a"], "name": [f"n{i}" for i in range(300)], "sex": sex})
    )
    roles = table.assign("sex", categorical="name")
    for read in (table.moments, table.rows):
        with pytest.raises(InvalidInputError, match="few rows for each value"):
            read(roles)


def test_one_feature_that_holds_all_the_variance(people):
    frame, sex = people
    large = frame.assign(b=frame["b"] * 100)
    [(category, text)] = _said(lambda: FairPCA(2).fit(large, sensitive_features=sex))
    assert category is DominantFeatureWarning
    assert "'b' holds 100 %" in text
    assert not _said(lambda: FairPCA(2, standardize=True).fit(large, sensitive_features=sex))
    assert _said(lambda: DeltaFairPCA(2, penalty=0.1).fit(large, sensitive_features=sex))


def test_groups_with_few_rows(people):
    frame, _ = people
    groups = np.where(np.arange(300) < 8, "few", "many")
    three, two = (FairPCA(d, min_group_size=2) for d in (3, 2))
    [(category, text)] = _said(lambda: three.fit(frame, sensitive_features=groups))
    assert category is FewRowsWarning
    assert "few' (8 rows)" in text
    assert not _said(lambda: two.fit(frame, sensitive_features=groups))


def test_components_that_rest_on_a_few_extreme_rows():
    random = np.random.default_rng(0)
    X, sex = random.normal(size=(2000, 4)), np.arange(2000) % 2
    normal = FairPCA(2).fit(X, sensitive_features=sex)
    assert (normal.effective_samples_ > 1500).all()
    assert (normal.effective_samples_ <= 2000).all()
    X[:8, 2] = 30.0 * np.tile([1.0, 1.0, -1.0, -1.0], 2)
    model = FairPCA(2, cov_weight=0.0)
    (category, text), *more = _said(lambda: model.fit(X, sensitive_features=sex))
    assert category is ExtremeRowsWarning
    assert not more
    extreme = int(np.argmin(model.effective_samples_))
    assert f"component {extreme + 1} (" in text
    assert "of 2000)" in text
    assert model.effective_samples_[extreme] < 40
    kurtosis = scipy.stats.kurtosis(model.transform(X), fisher=False)
    expected = np.minimum(2 * 2000 / (kurtosis - 1), 2000)
    np.testing.assert_allclose(model.effective_samples_, expected)
    assert model.fit_moments(model.moments_).effective_samples_ is None


def test_weights_and_missing_values_count_in_effective_samples():
    random = np.random.default_rng(0)
    X, sex, weights = random.normal(size=(400, 3)), np.arange(400) % 2, random.integers(0, 3, 400)
    one = FairPCA(2).fit(X, sensitive_features=sex, sample_weight=weights.astype(float))
    n = weights.sum() ** 2 / (weights**2).sum()
    assert (one.effective_samples_ <= n + 1e-9).all()
    X[3, 0] = np.nan
    for missing in ("mean", "drop-rows"):
        with pytest.warns(FairnessWarning):
            model = FairPCA(2, missing=missing).fit(X, sensitive_features=sex)
        assert np.isfinite(model.effective_samples_).all()


@pytest.mark.parametrize(
    "model", [FairPCA(1), FairKernelPCA(1, rank=5), DeltaFairPCA(1, penalty=0.1)]
)
def test_groups_with_another_index(people, model):
    frame, sex = people
    shuffled = sex.sample(frac=1, random_state=0)
    [(category, text)] = _said(lambda: model.fit(frame, sensitive_features=shuffled))
    assert category is IndexMismatchWarning
    assert "sensitive_features.loc[X.index]" in text
    assert not _said(lambda: model.fit(frame, sensitive_features=shuffled.to_numpy()))
    assert not _said(lambda: model.fit(frame.loc[shuffled.index], sensitive_features=shuffled))


def test_an_identifier_as_the_attribute_is_refused_at_once(people):
    frame, _ = people
    for ids in (np.arange(300), [f"n{i}" for i in range(300)]):
        with pytest.raises(GroupsError, match="identifier"):
            FairPCA(2).fit(frame, sensitive_features=ids)
    many = np.arange(3000)
    with pytest.raises(GroupsError, match="identifier"):
        FairPCA(2).fit(np.random.default_rng(0).normal(size=(3000, 3)), sensitive_features=many)


def test_whole_numbers_that_may_be_numbers(people):
    frame, _ = people
    age = pd.DataFrame({"age": np.random.default_rng(0).integers(18, 70, 300)})
    with pytest.raises(InfeasibleError, match=r"numeric=\['age'\]"):
        FairPCA(2, min_group_size=2).fit(frame, sensitive_features=age)
    FairPCA(2, numeric=["age"]).fit(frame, sensitive_features=age)
    two = age.assign(size=np.random.default_rng(1).integers(140, 200, 300))
    FairPCA(2, numeric=np.array(["age", "size"])).fit(frame, sensitive_features=two)


def test_warnings_point_at_the_line_of_the_caller(people):
    frame, sex = people
    model = make_pipeline(FairPCA(2))
    with pytest.warns(DominantFeatureWarning) as caught:
        model.fit(frame * [1, 100, 1, 1], fairpca__sensitive_features=sex)
    assert caught[0].filename == __file__


def test_a_long_fit_says_so_before_it_starts(monkeypatch):
    from fairpca.estimators import _fair_kernel_pca

    monkeypatch.setattr(_fair_kernel_pca, "_SECONDS", 1e6)
    X, groups = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    with pytest.warns(LongFitWarning, match=r"60 rows may take about .* Or use rank=200 or n_l"):
        FairKernelPCA(1).fit(X, sensitive_features=groups)
    assert not _said(lambda: FairKernelPCA(1, rank=5).fit(X, sensitive_features=groups))
    assert not _said(lambda: FairKernelPCA(1, n_landmarks=9).fit(X, sensitive_features=groups))


@pytest.mark.parametrize(
    ("rows", "options", "said", "size"),
    [
        (1000, {}, None, 999),
        (1001, {}, "1,001 rows: the 200 largest eigenvalues", 200),
        (1001, {"n_components": 120}, "the 240 largest", 240),
        (1001, {"n_landmarks": 50}, None, 49),
        (3001, {}, "3,001 rows: 500 landmarks stand for all", 499),
    ],
)
def test_kernels_of_many_rows_are_approximated_and_say_so(rows, options, said, size):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(rows, 30)), np.arange(rows) % 2
    model = FairKernelPCA(**{"n_components": 1, "cov_weight": 0.0} | options)
    caught = _said(lambda: model.fit(X, sensitive_features=groups))
    assert [kind for kind, _ in caught] == [ApproximateKernelWarning] * (said is not None)
    assert said is None or said in caught[0][1]
    assert len(model.eigenvalues_) == size


@pytest.mark.parametrize(
    ("options", "advice"),
    [({}, "n_components=2 or cov_weight=0"), ({"cov_tol": 1.0}, "n_components=2")],
)
def test_a_long_solve_is_announced_with_what_is_quick(options, advice, monkeypatch):
    def solve(*_, **__):
        raise KeyboardInterrupt  # before anything is solved

    monkeypatch.setattr(FairPCA, "_solve", solve)
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(900, 300)), np.arange(900) % 12
    with (
        pytest.warns(LongFitWarning, match=rf"12 contrasts.*Or use {advice}\.") as caught,
        pytest.raises(KeyboardInterrupt),
    ):
        FairPCA(30, **options).fit(X, sensitive_features=groups)
    assert caught[0].filename == __file__
    model = FairPCA(30, cov_weight=0.0) if not options else FairPCA(2, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LongFitWarning)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, sensitive_features=groups)
    assert not hasattr(model, "certificate_")


def test_an_interrupted_refit_leaves_the_last_fit_as_it_was(monkeypatch):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(90, 4)), np.arange(90) % 2
    model = FairPCA(2, cov_weight=0.0).fit(X, sensitive_features=groups)
    before = dict(vars(model))

    def solve(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(FairPCA, "_solve", solve)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :3], sensitive_features=groups)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_embedded_data_give_no_warning():
    diabetes = load_diabetes_sex()
    X, sex = diabetes.data, diabetes.sensitive_features
    for standardize in (True, "famd"):
        model = FairPCA(2, standardize=standardize)
        assert not _said(lambda m=model: m.fit(X, sensitive_features=sex))


NEAR_MISSES = {
    "generator": (lambda X: (row for row in X), r"list\(X\)"),
    "path": (lambda X: "people.csv", "open_table"),
    "dict": (lambda X: {"a": X[:, 0]}, "DataFrame"),
    "moments": (lambda X: GroupMoments.from_arrays(X, np.arange(40) % 2), "fit_moments"),
    "table": (lambda X: open_table(pa.table({"a": X[:, 0]})), "fit_moments"),
}


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_near_misses_are_told_what_to_pass(case):
    X, groups = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    make, message = NEAR_MISSES[case]
    with pytest.raises(InvalidInputError, match=message):
        FairPCA(1).fit(make(X), sensitive_features=groups)
    fitted = FairPCA(1).fit(X, sensitive_features=groups)
    with pytest.raises(InvalidInputError, match=message):
        fitted.transform(make(X))


def test_a_lazy_frame_is_collected_first():
    X, groups = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    lazy = pl.DataFrame(X).lazy()
    fitted = FairPCA(1).fit(X, sensitive_features=groups)
    with pytest.raises(InvalidInputError, match="collect"):
        fitted.transform(lazy)
    with pytest.raises(InvalidInputError, match="name its columns"):
        FairPCA(1).fit(lazy, sensitive_features=groups)


def test_models_are_loaded_from_the_package(tmp_path, people):
    frame, sex = people
    fair = FairPCA(2).fit(frame, sensitive_features=sex)
    again = load_model(fair.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.transform(frame), fair.transform(frame))


def test_every_data_warning_is_a_fairness_warning():
    for kind in (GroupFeatureWarning, IdentifierWarning, DominantFeatureWarning, FewRowsWarning):
        assert issubclass(kind, FairnessWarning)


def test_a_component_without_variance_names_the_contrast_that_forces_it():
    # Group b varies in the first two features only, so that nothing but the last is within 1e-3.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [3.0, 2.0, 1.0, 0.0]
    z = np.repeat(["a", "b"], 150)
    contrasts = GroupMoments.from_arrays(np.where(z[:, None] == "b", X, 0.1 * X), z).contrasts()
    S, basis = np.diag([9.0, 4.0, 1.0, 0.0]), np.eye(4)[:, [2, 3]]
    with pytest.warns(EmptyComponentWarning, match=r"1 of 2 components .*b vs a"):
        warn_of_empty_components(basis, S, contrasts, equal_means=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_empty_components(np.eye(4)[:, :2], S, contrasts, equal_means=False)
        # Nothing is left that varies: the data force it, and no contrast does.
        only = np.diag([0.0, 0.0, 1.0, 0.0])
        warn_of_empty_components(basis, only, contrasts, equal_means=False)


def test_cells_that_were_merged_before_writing_are_named():
    X, z = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    moments = replace(GroupMoments.from_arrays(X, z), merged=("sex=x",))
    with pytest.warns(SmallGroupWarning, match="before these moments were written: sex=x"):
        FairPCA(1).fit_moments(moments)


@pytest.mark.parametrize(("mean_tol", "cov_weight"), [(0.0, 0.0), (None, 1.0), (None, 0.0)])
def test_small_groups_are_said_where_something_compares_them(mean_tol, cov_weight):
    rng = np.random.default_rng(3)
    X, z = rng.normal(size=(60, 6)), np.repeat(["a", "b"], [54, 6])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FairPCA(3, mean_tol=mean_tol, cov_weight=cov_weight).fit(X, sensitive_features=z)
    is_said = any("groups with fewer than 9 rows" in str(one.message) for one in caught)
    assert is_said == ((mean_tol, cov_weight) != (None, 0.0))


def kinds_of(X, groups, model=None):
    model = model or FairPCA(1, cov_weight=0.0)
    return [kind for kind, _ in _said(lambda: model.fit(X, sensitive_features=groups))]


@pytest.mark.parametrize(("share", "is_said"), [(0.905, True), (0.895, False)])
def test_nine_tenths_of_the_variance_is_nearly_all(share, is_said):
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]).repeat(10, axis=0)
    X = 7.0 + signs * np.sqrt([share, 1.0 - share])
    assert kinds_of(X, np.arange(40) % 2) == [DominantFeatureWarning] * is_said
    assert not kinds_of(X[:, :1], np.arange(40) % 2, FairPCA(1, mean_tol=None))  # no other feature


@pytest.mark.parametrize(
    ("few", "rows", "is_said"), [(8, 30, True), (9, 30, False), (8, 20, True), (8, 19, False)]
)
def test_a_group_needs_three_rows_for_each_component(few, rows, is_said):
    X, groups = np.random.default_rng(0).normal(size=(rows, 5)), np.arange(rows) < few
    model = FairPCA(3, cov_weight=0.0)
    assert kinds_of(X, groups, model) == [FewRowsWarning] * is_said


@pytest.mark.parametrize(("small", "said"), [(5, r"\(4 rows\)\. Their"), (6, " and 1 more. Their")])
def test_five_small_groups_are_named(small, said):
    groups = np.r_[np.repeat([f"g{i}" for i in range(small)], 4), ["large"] * 30]
    X = np.random.default_rng(0).normal(size=(len(groups), 9))
    model = FairPCA(2, cov_weight=0.0)
    [(kind, text)] = _said(lambda: model.fit(X, sensitive_features=groups))
    assert kind is FewRowsWarning
    assert text.count("(4 rows)") == 5
    assert re.search(said, text)


@pytest.mark.parametrize(
    ("sizes", "is_said"),
    [((20, 5), True), ((20, 4), False), ((20, 5, 4), True), ((20, 5, 5), True), ((25,) * 2, True)],
)
def test_a_feature_is_a_function_of_groups_of_five_rows_or_more(sizes, is_said):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).normal(size=(len(groups), 6))
    for copy in (groups**2 + 3.0, np.where(groups == 0, 1.0, 2.0)):
        X[:, 0] = copy
        assert (GroupFeatureWarning in kinds_of(X, groups)) == is_said
    X[:, 0] = 3.0 * (groups == 2)  # of a small group alone: nothing can be said
    assert (GroupFeatureWarning in kinds_of(X, groups)) == (is_said and sizes[2:] == (5,))
    X[:, 0] = groups + 1e-3 * X[:, 1]
    assert GroupFeatureWarning not in kinds_of(X, groups)


@pytest.mark.parametrize(("rows", "is_said"), [(10, True), (9, False)])
def test_a_feature_is_a_function_of_a_number_from_ten_rows_on(rows, is_said):
    rng = np.random.default_rng(0)
    age, X = rng.normal(size=rows), rng.normal(size=(rows, 4))
    X[:, 1] = 5.0 - 2.0 * age
    model = FairPCA(1, numeric=["sensitive_feature"], cov_weight=0.0)
    assert (GroupFeatureWarning in kinds_of(X, age, model)) == is_said
    X[:, 1] += 1e-3 * X[:, 2]
    assert GroupFeatureWarning not in kinds_of(X, age, model)


@pytest.mark.parametrize(("apart", "is_said"), [(10.7, False), (11.1, True)])
def test_few_rows_far_out_make_a_component_of_few_effective_rows(apart, is_said):
    # ±1, and two pairs of rows at ±apart: 2n/(κ − 1), with κ from sums of powers.
    n = 1200
    x = np.tile([1.0, -1.0], n // 2)
    x[:4] *= apart
    kappa = n * np.sum(x**4) / np.sum(x**2) ** 2
    model = FairPCA(1, cov_weight=0.0)
    X = np.column_stack([x, np.repeat([0.3, -0.3], n // 2)])
    groups = np.arange(n) // 2 % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DominantFeatureWarning)
        said = _said(lambda: model.fit(X, sensitive_features=groups))
    expected = 2 * n / max(kappa - 1, 2)
    assert (expected < 100) == is_said
    assert (ExtremeRowsWarning in [kind for kind, _ in said]) == is_said
    assert model.effective_samples_[0] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("levels", "is_said"), [((12, 12), False), ((20, 2), False), ((21,), True)]
)
def test_whole_numbers_of_more_than_twenty_groups_may_be_numbers(levels, is_said):
    rows = np.arange(504)
    groups = np.column_stack([rows // 7**k % size for k, size in enumerate(levels)])
    X = np.random.default_rng(0).normal(size=(len(rows), 3))
    model = FairPCA(1, mean_tol=None, cov_weight=0.0)
    said = _said(lambda: model.fit(X, sensitive_features=groups))
    assert [kind for kind, _ in said] == [FewRowsWarning] * is_said
    assert all("declare it a number" in text for _, text in said)
