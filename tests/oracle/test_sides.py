"""What both sides of a rule must do: either group, either branch, any limit of rows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from scipy.stats import chi2, t
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import FairScorer, audit, delta_fairness, explained_variance
from fairpca.metrics._cross_fit import Classifier, Labelled
from fairpca.metrics._plane import _both_signs
from fairpca.metrics._svm import KernelStatistic
from fairpca.moments._new_data import ExpectedGaps, GapForecast, hotelling
from fairpca.rows import Rows
from fairpca.rows._identifiers import suggests_units
from fairpca.tables import input_kind, open_table
from fairpca.tables._roles import Columns, suggested_units


@pytest.fixture
def rng():
    return np.random.default_rng(17)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_quantile_of_hotelling_between_students_and_that_of_many_rows(confidence):
    for freedom in (1.0, 2.5, 30.0):
        student = t.isf((1.0 - confidence) / 2.0, freedom) ** 2
        assert hotelling(1, freedom, confidence) == pytest.approx(student)
    for rank in range(6):
        values = [hotelling(rank, freedom, confidence) for freedom in (0.0, 1.0, 5.0, 9.0, 1e9)]
        assert not np.isnan(values).any()
        assert (np.diff([v for v in values if np.isfinite(v)]) <= 0.0).all()
        # As many rows as directions are needed for a bound; without directions nothing is.
        assert [np.isfinite(v) for v in values] == [f >= rank for f in (0.0, 1.0, 5.0, 9.0, 1e9)]
        assert values[-1] == pytest.approx(chi2.ppf(confidence, rank) if rank else 0.0, rel=1e-6)


@pytest.mark.parametrize("few", [1, -1])
def test_a_sample_without_rows_of_either_group_trains_no_kernel_machine(rng, few):
    signs = np.tile([few, -few, -few, 0], 20).astype(np.int8)
    U = rng.normal(size=(80, 2)) + signs[:, None]
    for trained in (np.arange(20), np.arange(1, 20)):  # five rows of the group
        assert KernelStatistic(U, None, 1.0, None, trained, 0).fit(signs).value > 0.0
    trained = np.flatnonzero(np.arange(80) > 4 * 18 * (signs == few))  # and one
    with pytest.raises(InvalidInputError, match="holds 1 rows of a group: raise max_samples"):
        KernelStatistic(U, None, 1.0, None, trained, 0).fit(signs)


def test_a_classifier_is_trained_on_all_rows_or_on_as_many_of_both_groups(rng):
    part = Labelled(
        Rows(rng.normal(size=(300, 1))), np.repeat([1, -1, 0], [40, 200, 60]).astype(np.int8)
    )
    trained = []
    for entry, limits in (
        (Classifier(lambda part, _: trained.append(part)), ()),
        (Classifier(lambda part, _: trained.append(part)), (30,)),
        (Classifier(lambda part, _: trained.append(part), max_rows=30), ()),
        (Classifier(lambda part, _: trained.append(part), max_rows=30), (50,)),
    ):
        entry.trainer(0, *limits)(part)
    counts = [[int((part.signs == sign).sum()) for sign in (1, -1, 0)] for part in trained]
    assert counts == [[40, 200, 60], *[[15, 15, 0]] * 3]


def test_a_score_takes_components_for_what_they_keep(rng):
    # Fair components are no principal axes: a regression on their scores explains more.
    X = rng.normal(size=(120, 5)) @ rng.normal(size=(5, 5))
    z = np.arange(120) % 2
    X[:, :2] += 3.0 * z[:, None]
    scorer = FairScorer(1.0, 0.0)
    for fair in (FairPCA(2), FairPCA(2, whiten=True)):
        fair.fit(X, sensitive_features=z)
        kept = fair.explained_variance_ratio_.sum()
        assert kept < explained_variance(X, U=fair.transform(X)) - 0.01
        assert scorer(fair, X) == pytest.approx(kept)
        centred = make_pipeline(StandardScaler(with_std=False).fit(X), fair)
        for model in (make_pipeline(fair), make_pipeline(centred), make_pipeline(*centred)):
            assert scorer(model, X + 0.0) == pytest.approx(kept)
    square = make_pipeline(PCA(5), PCA(2)).fit(X)
    assert scorer(square, X) == pytest.approx(PCA(2).fit(X).explained_variance_ratio_.sum())


def test_only_what_dask_can_split_is_a_collection_of_dask():
    class Lazy:
        """Has the graph of Dask, as labelled arrays have, and rows in memory."""

        __dask_graph__ = __array__ = None

    class Split(Lazy):
        to_delayed = None

    assert [input_kind(kind()) for kind in (Lazy, Split)] == ["memory", "dask"]


def test_slices_of_columns_make_up_the_whole(rng):
    names = {"features": ["x", "y"], "sensitive": ["g"], "weight": "w"}
    batch = pa.record_batch({name: rng.normal(size=23) for name in "xygw"})
    roles = open_table(pa.table({name: batch[name] for name in "xygw"})).assign(**names)
    for matrix in (None, csr_array(rng.normal(size=(23, 2)))):
        whole = replace(Columns.of(batch, roles), matrix=matrix)
        for size in (1, 5, 22, 23, 40):
            parts = [whole.slice(start, size) for start in range(0, 46, size)]
            assert [part.n_rows for part in parts] == [len(part.weight["w"]) for part in parts]
            assert sum(part.n_rows for part in parts) == 23
            found = np.concatenate([part.features["y"].to_numpy() for part in parts])
            np.testing.assert_array_equal(found, whole.features["y"].to_numpy())
            if matrix is not None:
                assert [part.matrix.shape[0] for part in parts] == [part.n_rows for part in parts]
        used = rng.random(23) < 0.5
        assert whole.filter(used).n_rows == used.sum()


def test_columns_that_may_name_persons_are_found_by_values_and_by_name(rng):
    n = 160
    person, patient = np.arange(n) // 4, rng.integers(0, 40, n)
    table = open_table(
        pa.table(
            {
                "x": rng.integers(0, 40, n),
                "code": person,
                "patient": patient,
                "half": rng.normal(size=n),
                "sex": np.array(["f", "m"])[person % 2],
                "race": np.array(["a", "b", "c"])[person % 3],
            }
        )
    )
    names = ["x", "code", "patient"]
    for groups, found in ((["sex"], 2), (["sex", "race"], 2), (["half"], 1)):
        roles = table.assign(groups, ["x"], numeric=["half"] if found == 1 else None)
        expected = [("code", 40, n), ("patient", len(np.unique(patient)), n)]
        assert list(suggested_units(table, roles, names)) == expected[-found:]


@pytest.mark.parametrize("few", ["a", "b"])
@pytest.mark.parametrize("by_unit", [False, True])
def test_pairs_that_could_not_be_split_are_said_but_not_those_of_small_groups(rng, few, by_unit):
    z = np.where(np.arange(60) < 3, few, "b" if few == "a" else "a")
    units = np.r_[[0, 0, 1], np.arange(2, 59)] if by_unit else None
    options = {"families": (), "adversaries": ("linear",), "effort": "quick", "units": units}
    for least in (2, 3, 4):
        report = audit(rng.normal(size=(60, 1)), z, min_group=least, **options)
        said = [one.pair for one in report.missing if one.reason == "too few rows in a half"]
        small = least > (2 if by_unit else 3)
        assert [len(said), len(report.small_groups)] == [not small, small]


def may_be_units(labels, groups, by_name):
    """The rule that `suggests_units` follows, unit by unit."""
    values = sorted(set(labels))
    if not 10 <= len(values) <= len(labels) / 2:
        return False
    of_unit = [set(groups[labels == value]) for value in values]
    if by_name or max(map(len, of_unit)) > 1:
        return by_name
    shares = [np.mean(groups == group) for group in set(groups)]
    alone = [sum(share ** np.sum(labels == value) for share in shares) for value in values]
    changes = sum(one != other for one, other in pairwise(of_unit))
    return sum(1.0 - p for p in alone) >= 10.0 and changes >= len(shares) <= len(values) / 2


def test_units_are_suggested_by_one_rule_whatever_they_are_called(rng):
    answers = []
    for _ in range(100):
        n_units, n_groups = rng.integers(8, 30), rng.integers(2, rng.choice([8, 16]))
        unit = np.repeat(np.arange(n_units), rng.integers(1, 5, n_units))
        group = rng.integers(0, n_groups, n_units)
        if rng.random() < 0.3:
            group = np.r_[np.sort(group)[:-1], rng.choice([0, n_groups - 1])]
        group = group[unit]
        if rng.random() < 0.2:
            group[0] = (group[0] + 1) % n_groups
        for by_name in (False, True):
            expected = may_be_units(unit, group, by_name)
            for labels in (unit, unit - 40.0, np.char.add("u", np.char.zfill(unit.astype(str), 2))):
                assert suggests_units(labels, group, by_name=by_name) == expected
            answers.append(expected)
    assert 0.3 < np.mean(answers) < 0.8


def test_an_audit_tries_not_all_orthants_of_four_components(rng):
    z = np.arange(24) % 2
    U = rng.normal(size=(24, 4)) + 1.5 * z[:, None] * (-1.0) ** np.arange(4)
    [one] = audit(U, z, families=("cdf",), adversaries=(), effort="quick").representations
    values = {
        some: delta_fairness(U, z, family="cdf", orthants=some).value for some in ("one", "all")
    }
    assert values["all"] > values["one"]
    assert [result.value for result in one.in_sample] == [values["one"]]


def test_an_open_table_is_no_matrix_and_a_table_of_arrow_is_one(rng):
    table = pa.table({"x": rng.normal(size=8), "y": rng.normal(size=8)})
    z = np.arange(8) % 2
    assert FairPCA(1, cov_weight=0.0).fit(table, sensitive_features=z).n_features_in_ == 2
    with pytest.raises(InvalidInputError, match=r"an open table: pass table\.moments"):
        FairPCA(1).fit(open_table(table), sensitive_features=z)


@pytest.mark.parametrize("small", [0, 3])
def test_whole_masses_beyond_32_bits_are_kept(small):
    masses = np.array([[small, -small], [2.0**31, -(2.0**31)]])  # of two pairs
    table = _both_signs(masses)
    np.testing.assert_array_equal(table, np.concatenate([masses.T, -masses.T, np.zeros((1, 2))]))
    assert _both_signs(masses[:1]).dtype == np.int32


def test_forecasts_are_told_in_both_units():
    features = GapForecast(0.16, None, 0.54, 0.31)
    deviations = GapForecast(0.25, 0.27, np.inf, None)
    gaps = ExpectedGaps(features, deviations, n_new=None, confidence=0.9, refits=0)
    first = "mean gap: expected on new data 0.160, at most 0.540 (90 %); covariance gap: expected "
    assert gaps.text("features") == gaps.text() == f"{first}0.310"
    some = replace(gaps, n_new=60, counted="units")
    told = "expected on 60 rows of new data 0.270, no bound with so few units for so many features"
    assert some.text("deviations") == f"mean gap: {told} on the population"
    assert repr(some).splitlines()[1:] == [
        f"  {some.text('features')}, in units of the features",
        f"  {some.text('deviations')}, in component deviations)",
    ]
