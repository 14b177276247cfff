"""Formulas of moments and metrics computed again, on tables that tell them from others."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.estimators._comparison import _average
from fairpca.exceptions import GroupsError, IdentifierWarning
from fairpca.metrics import FairScorer, audit, delta_fairness, refit_within
from fairpca.metrics._cross_fit import MIN_ROWS, Labelled, Trained, cross_fit_delta, largest_delta
from fairpca.metrics._inference import Family, effort_of
from fairpca.metrics._svm import svm_directions
from fairpca.moments import GroupMoments
from fairpca.moments._cells import sum_cell
from fairpca.moments._form_contrasts import mean_test
from fairpca.moments._held_out import _summary
from fairpca.moments._release import release
from fairpca.moments._storage import _read_indicators
from fairpca.rows import Rows
from fairpca.rows._identifiers import unique_columns, warn_of_identifiers
from fairpca.rows.groups import holds_numbers
from fairpca.solvers import FairProblem, solve
from fairpca.tables import moments_from_files
from fairpca.tables._kernel import distinct


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_of_candidates_within_the_limit_the_one_with_most_variance_is_chosen():
    results = {
        "mean_test_delta": [-0.9, -0.1, -0.2, -0.15],
        "mean_test_variance": [0.9, 0.4, 0.7, 0.6],
    }
    assert refit_within(0.2)(results) == 2
    assert refit_within(0.15)(results) == 3


def test_folds_with_a_negative_square_have_a_negative_gap():
    gap = _summary([4.0, -1.0, 9.0], None)
    assert gap.by_fold == (2.0, -1.0, 3.0)
    assert gap.value == pytest.approx(2.0)
    error = np.std([4.0, -1.0, 9.0], ddof=1) / np.sqrt(3.0)
    assert gap.error == pytest.approx(np.sqrt(4.0 + error) - 2.0)


def test_one_component_is_measured_exactly_wherever_it_stands(rng):
    z = np.arange(80) % 2
    U, V = rng.normal(size=(80, 2)) + z[:, None], rng.normal(size=(80, 1)) + z[:, None]
    for first, second in ((U, V), (V, U)):
        options = {"families": ("linear",), "adversaries": (), "effort": "quick"}
        found = audit(first, z, against=second, **options).representations
        measured = {one.n_components: [result.method for result in one.in_sample] for one in found}
        assert measured == {1: ["exact"], 2: ["svm", "search"]}


def imputed(frame, feature):
    """A number, or an indicator of a word, with the mean of known rows in place of others."""
    name, _, word = feature.partition("=")
    values = (
        frame[name] if not word else (frame[name] == word).astype(float).where(frame[name].notna())
    )
    return values.fillna(values.mean()).to_numpy(float)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.ImputedValuesWarning")
def test_parts_with_other_words_and_missing_values_are_merged(rng, tmp_path):
    n = 40
    frame = pd.DataFrame(
        {"x": rng.normal(size=n), "y": rng.normal(size=n), "g": ["a", "b"] * (n // 2)}
    )
    frame["c"] = np.r_[rng.choice(["u", "v"], n // 2), rng.choice(["v", "w", "z"], n // 2)]
    frame.loc[[1, 4, 25], "x"], frame.loc[[3, 30, 31], "c"] = np.nan, None
    parts = []
    for number, part in enumerate((frame[: n // 2], frame[n // 2 :])):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), path)
        parts.append(moments_from_files(path, ["g"], categorical=["c"], missing="mean"))
    for merged in (parts[0] + parts[1], parts[1] + parts[0]):
        assert sorted(merged.feature_names) == ["c=u", "c=v", "c=w", "c=z", "x", "y"]
        X = np.column_stack([imputed(frame, name) for name in merged.feature_names])
        one, other = X[::2], X[1::2]
        [contrast] = merged.contrasts()
        gap = np.abs(contrast.mean_gap)
        np.testing.assert_allclose(gap, np.abs(one.mean(axis=0) - other.mean(axis=0)), atol=1e-12)
        expected = np.cov(one.T, bias=True) - np.cov(other.T, bias=True)
        np.testing.assert_allclose(np.abs(contrast.cov_gap), np.abs(expected), atol=1e-12)


def test_ten_pairs_are_listed(rng):
    z = np.arange(60) % 6
    words = repr(delta_fairness(rng.normal(size=(60, 1)), z, compare="pairs"))
    below = words.split("largest of 15 pairs:")[1].splitlines()[1:]
    values = [float(line.split()[0]) for line in below]
    assert len(values) == 10
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("less", [0, 1])
def test_a_fold_needs_half_the_rows_of_a_small_group(rng, less):
    size = MIN_ROWS // 2
    signs = np.tile(np.repeat([1, -1], [size, size + 3]), 4).astype(np.int8)
    signs[:less] = 0  # one row fewer of the first fold
    part = Labelled(Rows(rng.normal(size=(len(signs), 1))), signs)
    folds = np.array_split(np.arange(len(signs)), 4)
    found = cross_fit_delta(part, folds, lambda _: Trained(None, lambda U: [U[:, 0]]))
    assert (found is None) == bool(less)


def test_errors_of_the_largest_difference_are_those_of_two_shares(rng):
    signs = np.repeat([1, -1], [90, 10]).astype(np.int8)
    scores = np.arange(100) % 10 + 5.0 * (signs > 0)
    found = largest_delta([scores], Labelled(Rows(scores[:, None]), signs))
    unit = np.sqrt(1 / 90 + 1 / 10)
    assert found.chance == pytest.approx(unit * np.sqrt(np.log(20.0) / 2.0), rel=1e-3)
    share = found.value  # of the first group above the threshold; of the other half as many
    assert 0.25 * unit < found.error <= 0.5 * unit * 1.05
    assert share == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "is_said"), [(19, False), (20, True)])
def test_numbers_of_fewer_than_twenty_rows_are_no_identifiers(rng, n, is_said):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_identifiers(unique_columns(np.arange(n, dtype=float)[:, None], ["id"]), n)
    assert [w.category for w in caught] == [IdentifierWarning] * is_said


def test_targets_that_all_rows_have_are_not_missing_from_a_release(rng):
    n = 300
    weights = rng.uniform(1e9, 3e9, n)  # whose sums differ by rounding
    y = np.where(rng.random(n) < 0.5, "no", "yes")
    z = rng.integers(0, 2, n)
    moments = GroupMoments.from_arrays(rng.normal(size=(n, 2)), z, None, weights, y=y)
    assert release(moments, 10) is moments


@pytest.mark.parametrize(("limit", "small"), [(12, False), (13, True)])
def test_groups_with_as_many_rows_as_the_limit_are_not_small(rng, limit, small):
    z = np.repeat(["a", "b"], [12, 30])
    contrasts = GroupMoments.from_arrays(rng.normal(size=(42, 2)), z).contrasts()
    assert contrasts.as_table(np.eye(2)).small(limit) == [small]


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@pytest.mark.parametrize("size", [None, 12, 13])
def test_a_numeric_attribute_needs_as_many_rows_as_a_group(rng, size):
    age, X = rng.normal(size=12), rng.normal(size=(12, 2))
    [contrast] = GroupMoments.from_arrays(X, age).contrasts(min_group_size=size)
    assert (contrast.cov_gap is None) == (size == 13)
    expected = [np.mean((x - x.mean()) * (age - age.mean())) / age.std() for x in X.T]
    np.testing.assert_allclose(contrast.mean_gap, expected, atol=1e-12)


def test_many_pairs_share_the_rows_of_an_audit():
    effort = effort_of("standard")
    assert effort.shared(1) == effort.shared(2) == effort
    shared = effort.shared(32)  # a quarter of the rows, and a sixteenth of the kernels of two pairs
    assert (shared.trained, shared.null_rows) == (effort.trained // 4, effort.null_rows // 4)
    assert effort.shared(10**6).trained == 300


def test_the_score_of_a_fair_scorer_takes_the_difference_from_the_variance(rng):
    z = np.arange(80) % 2
    X = rng.normal(size=(80, 3)) + np.outer(z, [2.0, 0.0, 0.0])
    plain = PCA(1).fit(X)
    scores = FairScorer()(plain, X, sensitive_features=z)
    delta = delta_fairness(plain.transform(X), z).value
    assert scores == pytest.approx(plain.explained_variance_ratio_.sum() - delta, abs=1e-6)


def test_codes_of_null_are_minus_one():
    for column in (
        pa.array(["b", None, "a", "b"]),
        pa.array(["b", None, "a", "b"]).dictionary_encode(),
    ):
        levels, codes = distinct(column)
        assert levels.to_pylist() == ["b", "a"]
        assert codes.tolist() == [0, -1, 1, 0]


@pytest.mark.parametrize("sizes", [((10, 10), (10, 20)), ((10, 10), (20, 10))])
def test_machines_of_pairs_of_other_sizes_are_those_of_each_pair_alone(rng, sizes):
    U = rng.normal(size=(40, 2))
    signs = np.zeros((2, 40), dtype=np.int8)
    for row, (plus, minus) in zip(signs, sizes, strict=True):
        row[:plus], row[plus : plus + minus] = 1, -1
    together = svm_directions(U, signs)
    for found, row in zip(together, signs, strict=True):
        np.testing.assert_allclose(found, svm_directions(U, row[None])[0], rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(
    ("incomplete", "fill"), [(("a", "b"), np.nan), (("b", "a"), 0.0), (("a", "a"), 0.0)]
)
def test_moments_whose_record_of_missing_values_is_damaged_are_refused(incomplete, fill):
    header = {"columns": ["a", "b"], "incomplete": incomplete, "n_features": 2}
    with pytest.raises(ValueError, match="not sorted, or not filled"):
        _read_indicators(header, np.array([fill, 0.0]))


@pytest.mark.parametrize("unit", [1.0, 2.0**30, 2.0**-30])
def test_no_loss_is_a_loss_of_zero_in_all_units(rng, unit):
    rows = rng.normal(size=(50, 4)) * [3.0, 2.0, 1.0, 0.5] * unit
    X, z = np.vstack([rows, -rows + rows.mean(axis=0) * 2.0]), np.repeat(["a", "b"], 50)
    fair = FairPCA(2, objective="worst-loss", mean_tol=None, cov_weight=0.0)
    certificate = fair.fit(X, sensitive_features=z).certificate_
    assert certificate.objective == certificate.bound == 0.0


@pytest.mark.parametrize("solver", ["refined", "tight", "deflation"])
def test_covariances_without_a_difference_cost_nothing(rng, solver):
    rows = rng.normal(size=(60, 4)) * [3.0, 2.0, 1.0, 0.5]
    X, z = np.vstack([rows, rows + 1.0]), np.repeat([0, 1], 60)
    fair = FairPCA(2, cov_weight=5.0, solver=solver).fit(X, sensitive_features=z)
    gap = np.ones(4) / 2.0
    inside = np.linalg.svd(np.eye(4) - np.outer(gap, gap))[0][:, :3]  # orthogonal to the means
    best = np.linalg.eigvalsh(inside.T @ np.cov(rows.T, bias=True) @ inside)[-2:].sum()
    assert fair.certificate_.objective == pytest.approx(best, rel=1e-6)
    assert fair.certificate_.bound == pytest.approx(best, rel=1e-4)


def test_deflation_takes_for_free_what_gap_an_earlier_component_has_spent():
    # The second direction has a smaller gap than the first: together they cost what the first does.
    S, Q = np.diag([5.0, 4.0, 3.9]), np.diag([1.0, 0.9, 0.0])
    problem = FairProblem(S, np.zeros((0, 3)), Q[None], 2, mean_tol=None, cov_weight=1.0)
    solution = solve(problem, "deflation", certify=False)
    assert solution.certificate.objective == pytest.approx(5.0 + 4.0 - 1.0, rel=1e-6)
    np.testing.assert_allclose(np.abs(solution.basis), np.eye(3)[:, :2], atol=1e-6)


def test_two_fractions_are_groups_and_three_are_numbers():
    assert not holds_numbers([0.5, 1.5])
    assert holds_numbers([0.5, 1.0, 1.5])
    assert not holds_numbers([1.0, 2.0, 3.0])
    assert holds_numbers([1.0, 2.0, 3.0], most=2)
    FairPCA(1, missing_groups="own", cov_weight=0.0).fit(
        np.eye(6)[:, :4], sensitive_features=np.array([0.5, 1.5, 0.5, 1.5, np.nan, np.nan])
    )
    age = np.array([0.5, 2.0, 3.0, np.nan])  # one fraction is enough
    with pytest.raises(GroupsError, match="holds numbers, of which 1 is missing"):
        FairPCA(1, missing_groups="own").fit(np.eye(4), sensitive_features=age)


def test_names_given_for_features_replace_those_of_a_frame():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [2.0, 1.0, 0.0]})
    z = ["u", "v", "u"]
    assert Rows.read(frame, z).feature_names == ("a", "b")
    assert Rows.read(frame, z, feature_names=["c", "d"]).feature_names == ("c", "d")
    assert Rows.read(frame.to_numpy(), z).feature_names is None


class TestQuantilesOfSeveralIntervals:
    """The quantile of the largest of correlated normal numbers, by what is known of it."""

    @pytest.mark.parametrize("confidence", [0.8, 0.95])
    def test_equal_columns_need_no_more_than_one(self, confidence):
        column = np.random.default_rng(0).normal(size=50)
        found = Family.of([column, 3.0 * column, -column], 0).quantile(confidence)
        assert found == pytest.approx(norm.ppf(0.5 + 0.5 * confidence), abs=0.06)

    @pytest.mark.parametrize(("count", "error"), [(8, 0.06), (401, 1e-12)])
    def test_independent_columns_need_sidaks(self, count, error):
        columns = np.eye(count)
        expected = norm.ppf(0.5 + 0.5 * 0.95 ** (1.0 / count))
        family = Family.of(list(columns), 0)
        assert family.quantile(0.95) == pytest.approx(expected, abs=error)
        assert family.p_value(family.quantile(0.95)) == pytest.approx(0.05, abs=0.1 * error)


def test_equal_means_differ_by_nothing_but_chance_and_constants_cannot_be_told(rng):
    x = rng.normal(size=(20, 3))
    none, places = np.empty((40, 0)), np.arange(20)

    def p_value(rows):
        return mean_test(*(sum_cell(rows, none, None, part) for part in (places, places + 20)))[0]

    assert p_value(np.vstack([x, x])) == 1.0
    assert p_value(np.vstack([x, x + 9.0])) < 1e-9
    assert p_value(np.ones((40, 3))) == 0.0


def test_an_average_with_an_infinite_fold_is_infinite_and_has_no_nan():
    assert _average([1.0, None, np.inf])[:2] == (np.inf, 0.0)
    assert _average([None, None])[:2] == (np.inf, 0.0)
    assert _average([1.0, None, 3.0])[:2] == (2.0, 1.0)
