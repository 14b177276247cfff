"""Both sides of limits, and parts of formulas that only few tables have."""

import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

from fairpca import FairPCA
from fairpca.estimators._data_warnings import warn_of_solve
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.metrics import audit, cov_gap, delta_fairness, gaussian_bound, mean_gap
from fairpca.metrics._inference import Rates
from fairpca.metrics._search import _logistic, _starts
from fairpca.moments import GroupMoments
from fairpca.moments._new_data import cov_gap_on, draw_moments
from fairpca.moments._targets import TargetMoments
from fairpca.moments.folds import check_folds
from fairpca.rows import Rows
from fairpca.rows._identifiers import Unique, merge_unique, unique_columns
from fairpca.tables import moments_from_files


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_numbers_whose_square_is_no_number_are_refused_on_either_side(sign):
    z = np.arange(20) % 2
    U = sign * 1e152 * np.linspace(1.0, 2.0, 20)[:, None]
    with pytest.raises(InvalidInputError, match="rescale"):
        mean_gap(U, z)
    assert mean_gap(U * 1e-4, z) > 0.0


def test_differences_whose_square_is_no_number_are_refused():
    z, x = np.arange(20) % 2, np.linspace(0.0, 1.0, 20)[:, None]
    with pytest.raises(InvalidInputError, match="rescale"):
        mean_gap(5e-151 * x, z)
    assert mean_gap(2e-150 * x, z) > 0.0


@pytest.mark.parametrize("metric", [mean_gap, cov_gap, gaussian_bound])
def test_rows_of_a_third_group_are_on_no_side_of_a_pair(rng, metric):
    z = np.arange(90) % 3
    U = rng.normal(size=(90, 2)) * (1.0 + z[:, None]) + np.outer(z == 1, [0.4, 0.0])
    U[z == 2] = U[z == 0] + rng.normal(scale=0.01, size=(30, 2))  # no larger gap than the others
    alone = [metric(U[z != left_out], z[z != left_out]) for left_out in range(3)]
    assert metric(U, z, compare="pairs") == pytest.approx(max(alone), rel=1e-9)


def test_each_pair_of_three_groups_is_measured_on_its_own_rows(rng):
    z = np.arange(60) % 3
    U = rng.normal(size=(60, 1)) + 2.0 * z[:, None]
    for pair in delta_fairness(U, z, compare="pairs").pairs:
        inside = np.isin(z, pair.groups)
        assert pair.value == delta_fairness(U[inside], z[inside]).value


@pytest.mark.parametrize(("place", "value"), [(0, 0.0), (1, 0.0), (1, -1.0), (2, np.nan)])
def test_a_part_of_a_target_without_rows_or_weight_is_refused(place, value):
    row = np.array([3.0, 2.5, 0.1, 0.0, 1.0, 0.0, 4.0, 0.5])  # one feature and one target
    part = TargetMoments.from_flat(row, 1, 1)
    assert (part.n_rows, part.weight, part.y_scatter.item()) == (3, 2.5, 4.0)
    row[place] = value
    with pytest.raises(ValueError, match="no rows"):
        TargetMoments.from_flat(row, 1, 1)


def test_the_search_starts_from_the_discriminant_of_fisher_with_weights(rng):
    signs = np.where(np.arange(80) % 2 == 1, 1, -1).astype(np.int8)
    weight = rng.uniform(0.2, 5.0, 80)
    U = rng.normal(size=(80, 4)) * (1.0 + 0.5 * (signs[:, None] > 0)) + 0.5 * signs[:, None]
    means, covs = [], []
    for sign in (1, -1):
        rows, share = U[signs == sign], weight[signs == sign]
        means.append(np.average(rows, axis=0, weights=share))
        covs.append(np.cov(rows.T, aweights=share, bias=True))
    starts = _starts(U, np.eye(4), signs, weight)
    np.testing.assert_allclose(np.linalg.norm(starts, axis=1), 1.0)
    for cov in (covs[0] + covs[1], covs[0], covs[1]):
        expected = np.linalg.solve(cov, means[0] - means[1])
        cosines = starts @ expected / np.linalg.norm(expected)
        assert np.abs(cosines).max() == pytest.approx(1.0, abs=1e-9)


def test_the_largest_difference_is_not_that_of_a_small_group(rng):
    z = np.repeat(["a", "b", "few"], [40, 40, 4])
    U = rng.normal(size=(84, 1)) + 9.0 * (z == "few")[:, None]
    options = {"families": ("linear",), "adversaries": (), "compare": "pairs", "min_group": 10}
    [result] = audit(U, z, **options).representations[0].in_sample
    assert [pair.groups for pair in result.headline] == [("a", "b")]
    assert result.value < 0.9 < max(pair.value for pair in result.pairs)
    [result] = audit(U[z != "b"], z[z != "b"], **options).representations[0].in_sample
    assert result.value == 1.0  # there is no other pair


@pytest.mark.parametrize("few", ["a", "c"])  # first or last, so on either side of its contrast
def test_gaps_of_an_audit_are_not_those_of_a_small_group(rng, few):
    z = np.r_[np.repeat(["b", "d"], 60), [few] * 5]
    U = rng.normal(size=(125, 2)) + 9.0 * (z == few)[:, None]
    options = {"families": (), "adversaries": (), "compare": "pairs", "min_group": 20}
    gaps = audit(U, z, **options).representations[0].gaps
    inside = z != few
    largest = gaps["mean_gap"]["mean_gap"]
    assert largest == pytest.approx(mean_gap(U[inside], z[inside]), rel=1e-9)
    assert largest < mean_gap(U, z, compare="pairs") / 5.0


def test_held_out_figures_of_an_audit_where_all_groups_are_small(rng):
    z = np.arange(60) % 2
    U = rng.normal(size=(60, 2)) + 2.0 * z[:, None]
    report = audit(U, z, families=(), adversaries=("linear",), effort="quick", min_group=40)
    [one] = report.representations[0].held_out
    assert one.held_out.low < one.held_out.estimate < one.held_out.high
    assert one.held_out.estimate > 0.5


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5])
def test_seeds_that_numpy_does_not_take_are_refused(rng, seed):
    U, z = rng.normal(size=(20, 2)), np.arange(20) % 2
    options = {"families": (), "adversaries": ()}
    with pytest.raises(InvalidInputError, match="random_state"):
        audit(U, z, random_state=seed, **options)
    assert audit(U, z, random_state=2**32 - 1, **options).representations


def test_the_search_starts_from_a_logistic_regression_with_balanced_groups(rng):
    signs = np.where(rng.random(200) < 0.2, 1, -1).astype(np.int8)
    weight = rng.uniform(0.5, 2.0, 200)
    U = rng.normal(size=(200, 3)) + np.outer(signs > 0, [0.8, -0.4, 0.1])
    share = 0.5 * weight
    for sign in (1, -1):
        share[signs == sign] /= weight[signs == sign].sum()
    # C multiplies the losses, whose weights are of sum one here, and the penalty is 1e-3.
    exact = LogisticRegression(C=1e3, tol=1e-10).fit(U, signs > 0, sample_weight=share)
    np.testing.assert_allclose(_logistic(U, signs, weight), exact.coef_[0], rtol=1e-3)


@pytest.mark.parametrize("family", ["linear", "cdf", "rbf"])
def test_a_classifier_far_from_zero_attains_its_difference(rng, family):
    z = np.arange(60) % 2
    U = rng.normal(size=(60, 2)) * [1.0, 3.0] + 0.8 * z[:, None] + [50.0, -20.0]
    worst = delta_fairness(U, z, family=family).worst
    flagged = worst.classifier.predict(U)
    assert abs(flagged[z == 1].mean() - flagged[z == 0].mean()) == pytest.approx(worst.value)


def test_the_error_under_the_null_is_that_of_the_pooled_rate(rng):
    signs = np.repeat([1, -1], 1000).astype(np.int8)
    flags = (np.arange(2000) % 10 == 0).astype(float)  # both groups have a rate of 10 %
    flags[:50] = 1.0
    pooled = flags.mean()
    # Twice the variance of two rates: every half of the rows is held out once.
    expected = np.sqrt(2.0 * pooled * (1.0 - pooled) * 2.0 / 1000)
    assert Rates.of(flags, signs, None).null_error == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("family", ["linear", "cdf", "rbf"])
def test_plain_values_of_a_result_name_its_classifier(rng, family):
    z = np.arange(40) % 2
    U = rng.normal(size=(40, 2)) + z[:, None]
    result = delta_fairness(U, z, family=family)
    plain = result.to_dict()
    assert plain["classifier"] == type(result.worst.classifier).__name__
    assert len(plain["pairs"]) == len(result.pairs) == 1
    assert delta_fairness(np.zeros((40, 1)), z, family=family).to_dict()["classifier"] is None


@pytest.mark.parametrize("form", [{"cov_weight": 2.0}, {"cov_tol": 0.6}], ids=str)
def test_a_fit_takes_the_same_steps_in_all_units(rng, form):
    z = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 4)) * (1.0 + 0.4 * z[:, None] * (np.arange(4) < 2))
    X[:, 0] += z
    fits = []
    for unit in (1.0, 2.0**20):
        scaled = {name: v * unit**2 if name == "cov_tol" else v for name, v in form.items()}
        fits.append(FairPCA(1, min_group_size=2, **scaled).fit(X * unit, sensitive_features=z))
    one, other = (fit.certificate_ for fit in fits)
    assert other.objective / unit**2 == pytest.approx(one.objective, rel=1e-6)
    assert other.bound / unit**2 == pytest.approx(one.bound, rel=1e-6)
    assert fits[1].n_iter_ == pytest.approx(fits[0].n_iter_, rel=0.2, abs=3)


def test_as_many_cells_as_allowed_are_summed_over_files(tmp_path):
    for number, groups in enumerate(["aabb", "bbcc"]):
        columns = {"x": np.arange(4.0), "y": np.arange(4.0) ** 2, "g": list(groups)}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    assert moments_from_files(tmp_path, ["g"], max_cells=3).n_samples == 8
    with pytest.raises(GroupsError, match="more than 2"):
        moments_from_files(tmp_path, ["g"], max_cells=2)


@pytest.mark.parametrize("folds", [1, 101, 2.0, True])
def test_folds_are_two_to_a_hundred(folds):
    with pytest.raises(InvalidInputError, match="folds"):
        check_folds(folds)
    check_folds(2)
    check_folds(100)


def test_a_list_as_long_as_the_frame_holds_groups_also_where_it_could_be_names(rng):
    frame = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    fair = FairPCA(1, cov_weight=0.0).fit(frame, sensitive_features=["a", "b"] * 10)
    assert fair.n_features_in_ == 2
    scores = fair.transform(frame)[:, 0]
    assert scores[::2].mean() == pytest.approx(scores[1::2].mean(), abs=1e-12)


@pytest.mark.parametrize("n", [4, 40])  # rows for as many directions as vary, and more
def test_drawn_moments_have_the_spread_of_as_many_rows(rng, n):
    moments = GroupMoments.from_arrays(rng.normal(size=(n, 5)) * np.arange(1.0, 6.0), ["a"] * n)
    [cell] = moments.table.cells.values()
    drawn = [next(iter(draw_moments(moments, rng).table.cells.values())) for _ in range(2000)]
    scatter = np.mean([one.scatter for one in drawn], axis=0)
    unit = np.trace(cell.covariance)
    np.testing.assert_allclose(scatter / (n - 1), cell.covariance, atol=0.05 * unit)
    assert np.trace(scatter) / (n - 1) == pytest.approx(unit, rel=0.05)
    spread = np.cov(np.array([one.mean for one in drawn]).T)
    np.testing.assert_allclose(spread * n, cell.covariance, atol=0.1 * unit)


def test_drawn_moments_of_a_number_vary_about_those_of_the_rows(rng):
    X, age = rng.normal(size=(50, 3)) * [1.0, 2.0, 3.0], rng.normal(size=50)
    X[:, 0] += 2.0 * age
    moments = GroupMoments.from_arrays(X, age)
    [cell] = moments.table.cells.values()
    drawn = [next(iter(draw_moments(moments, rng).table.cells.values())) for _ in range(2000)]
    for name in ("cross", "third"):
        mean = np.mean([getattr(one, name) for one in drawn], axis=0)
        spread = np.std([getattr(one, name) for one in drawn], axis=0)
        error = (mean - getattr(cell, name)) / spread
        assert np.abs(error).max() < 4.5 / np.sqrt(2000)
        # A product of a number and of features without relation to it.
        sizes = np.sqrt(np.diag(cell.covariance)) if name == "cross" else None
        if sizes is not None:
            np.testing.assert_allclose(spread[0], sizes * np.sqrt(cell.z_scatter), rtol=0.1)


def test_the_largest_covariance_gap_of_several_contrasts_is_taken(rng):
    z = np.repeat(["a", "b", "c"], 200)
    X = rng.normal(size=(600, 3)) * np.repeat([1.0, 1.1, 3.0], 200)[:, None]
    contrasts = GroupMoments.from_arrays(X, z).contrasts("pairs")
    covariances = {group: np.cov(X[z == group].T, bias=True) for group in "abc"}
    V = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    gaps = [
        np.linalg.norm(V @ (covariances[one] - covariances[other]) @ V.T, 2)
        for one, other in ("ab", "ac", "bc")
    ]
    assert cov_gap_on(contrasts, V) == pytest.approx(max(gaps), rel=1e-9)
    assert max(gaps) > 5.0 * min(gaps)


def test_two_of_three_groups_in_a_stratum_are_one_pair(rng):
    z, strata = list("aabb" + "aabbcc"), list("uuuu" + "vvvvvv")
    by_stratum = Rows.read(rng.normal(size=(10, 1)), z, strata).pairs("one-vs-rest", strict=False)
    first, second = ([pair.groups for pair in stratum.pairs] for stratum in by_stratum)
    assert first == [("a", "b")]
    assert [groups[1] for groups in second] == ["a", "b", "c"]


def test_the_range_of_unique_numbers_is_that_of_all_batches():
    X = np.c_[[7.0, 3.0, 5.0, 9.0, 11.0, 4.0], [1.0, 1.0, 2.0, 3.0, 4.0, 5.0]]
    parts = [unique_columns(X[:3], ["id", "x"]), unique_columns(X[3:], ["id", "x"])]
    assert merge_unique(parts) == {"id": Unique(3.0, 11.0, 6.0)}


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
@pytest.mark.parametrize(("rows", "refused"), [(41, True), (42, False)])
def test_an_attribute_needs_two_rows_for_each_of_many_groups(rng, rows, refused):
    z, X = np.array([f"g{i % 21}" for i in range(rows)]), rng.normal(size=(rows, 3))
    said = []
    try:
        FairPCA(1, mean_tol=None, min_group_size=2, cov_weight=0.0).fit(X, sensitive_features=z)
    except GroupsError as error:
        said = [str(error)]
    assert any("identifier" in words for words in said) == refused


@pytest.mark.parametrize(
    ("size", "d", "contrasts", "is_limit", "said"),
    [
        (500, 20, 12, False, "about 2 minutes.*Or use n_components=1 or cov_weight=0"),
        (500, 10, 12, False, "about 60 seconds.*Or use n_components=1 or cov_weight=0"),
        (500, 10, 12, True, "about 60 seconds.*Or use n_components=1\\."),
        (500, 9, 12, False, None),
        (1500, 200, 1, False, "about 67 seconds.*Or use n_components=10 or cov_weight=0"),
        (1500, 150, 1, False, None),
        (3200, 1, 1, True, "about 66 seconds.*fewer groups\\.$"),
    ],
)
def test_the_time_of_a_solve_grows_with_features_components_and_contrasts(
    size, d, contrasts, is_limit, said
):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_solve(size, d, contrasts, is_limit=is_limit)
    assert len(caught) == (said is not None)
    assert said is None or re.search(said, str(caught[0].message))
