"""SparseFairPCA: exact zeros and equal means at once, the regression criterion, path and limits."""

import numpy as np
import pytest
import scipy.linalg
from support import random_problem

from fairpca import FairPCA, GroupMoments, SparseFairPCA, load_model
from fairpca.datasets import load_diabetes_sex
from fairpca.exceptions import (
    CorrelatedScoresWarning,
    FairnessWarning,
    InfeasibleError,
    InvalidInputError,
    LongFitWarning,
)
from fairpca.linalg import complement_basis
from fairpca.solvers._sparse import (
    SparseProblem,
    addition_values,
    explained_variances,
    independent_rows,
    solve_sparse,
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, 3)) @ rng.normal(size=(3, 12)) + rng.normal(size=(600, 12))
    X += rng.normal(size=(3, 12))[group]
    X[group == 1, :4] *= 1.7
    return (X - X.mean(0)) / X.std(0), group


def test_zeros_and_equal_means_are_exact(rows):
    X, group = rows
    fair = SparseFairPCA(3, n_nonzero=5).fit(X, sensitive_features=group)
    U = fair.transform(X)
    assert (np.count_nonzero(fair.components_, axis=1) <= 5).all()
    assert np.array_equal(fair.n_nonzero_, np.count_nonzero(fair.components_, axis=1))
    np.testing.assert_allclose(np.linalg.norm(fair.components_, axis=1), 1.0, rtol=1e-12)
    means = [U[group == level].mean(axis=0) for level in range(3)]
    assert np.abs(np.diff(means, axis=0)).max() < 1e-12
    assert fair.mean_gap_ < 1e-12
    assert np.abs(fair.balance_.sum(axis=-1)).max() < 1e-12
    assert np.abs(np.corrcoef(U.T) - np.eye(3)).max() < 1e-10
    assert fair.correlation_ < 1e-10


def test_what_is_explained_is_the_regression_on_the_scores(rows):
    X, group = rows
    fair = SparseFairPCA(3, n_nonzero=6).fit(X, sensitive_features=group)
    U = fair.transform(X)
    errors = [np.sum(X**2)]
    for count in range(1, 4):
        fitted = U[:, :count] @ np.linalg.lstsq(U[:, :count], X, rcond=None)[0]
        errors.append(np.sum((X - fitted) ** 2))
    np.testing.assert_allclose(fair.explained_variance_ratio_, -np.diff(errors) / errors[0])
    np.testing.assert_allclose(fair.inverse_transform(U), fitted, atol=1e-10)
    assert (np.diff(fair.explained_variance_ratio_) <= 1e-12).all()


def test_no_scores_of_equal_means_exceed_the_bound(rows):
    X, group = rows
    moments = GroupMoments.from_arrays(X, group)
    S = moments.pooled().covariance
    fair = SparseFairPCA(2, n_nonzero=12).fit_moments(moments)
    certificate = fair.certificate_
    assert certificate.gap < 1e-9  # as many loadings as there are attain it
    for dense in (FairPCA(2, cov_weight=0.0), FairPCA(2)):
        V = dense.fit_moments(moments).components_.T
        assert sum(explained_variances(S, V)) <= certificate.bound * (1 + 1e-12)


def test_the_path_rises_and_its_points_are_those_of_single_fits(rows):
    X, group = rows
    path = SparseFairPCA(2, n_nonzero="path").fit(X, sensitive_features=group)
    table = path.path_
    assert table["n_nonzero"][0] == 4  # two independent group differences, two components
    assert (np.diff(table["explained_variance_ratio"]) >= -1e-12).all()
    assert sum(table["chosen"]) == 1
    chosen = table["chosen"].index(True)
    np.testing.assert_array_equal(path.path_components_[chosen], path.components_)
    single = SparseFairPCA(2, n_nonzero=table["n_nonzero"][1]).fit(X, sensitive_features=group)
    assert table["explained_variance_ratio"][1] >= single.explained_variance_ratio_.sum() - 1e-9
    assert not hasattr(path.set_params(n_nonzero=5).fit(X, sensitive_features=group), "path_")


def test_gaps_on_new_data_are_expected_from_copies(rows):
    X, group = rows
    path = SparseFairPCA(2, n_nonzero="path").fit(X, sensitive_features=group)
    copy = path.quick_copy()
    assert copy.n_nonzero == path.path_["n_nonzero"][path.path_["chosen"].index(True)]
    assert 0.0 < path.expected_gaps(refits=2).features.mean_gap < 1.0


def test_too_few_loadings_name_the_smallest_number(rows):
    X, group = rows
    with pytest.raises(InfeasibleError, match="n_nonzero=3 or more") as caught:
        SparseFairPCA(1, n_nonzero=2).fit(X, sensitive_features=group)
    assert caught.value.minimum == 3
    fair = SparseFairPCA(1, n_nonzero=3).fit(X, sensitive_features=group)
    assert fair.mean_gap_ < 1e-12


def test_correlated_scores_are_announced(rows):
    X, group = rows
    with pytest.warns(CorrelatedScoresWarning, match="n_nonzero=5 or more"):
        fair = SparseFairPCA(3, n_nonzero=4).fit(X, sensitive_features=group)
    assert 0 < fair.correlation_ < 0.9
    assert fair.mean_gap_ < 1e-12


def test_more_loadings_than_features_are_announced(rows):
    X, group = rows
    said = f"n_nonzero=99 leaves nothing out: there are {X.shape[1]} features."
    with pytest.warns(FairnessWarning, match=said):
        SparseFairPCA(1, n_nonzero=99).fit(X, sensitive_features=group)
    SparseFairPCA(1, n_nonzero=X.shape[1]).fit(X, sensitive_features=group)


def test_the_covariance_limit_is_on_the_whitened_scores(rows):
    X, group = rows
    free = SparseFairPCA(2, n_nonzero=6).fit(X, sensitive_features=group)
    limit = free.whitened_cov_gap_ / 6
    fair = SparseFairPCA(2, n_nonzero=6, cov_tol=limit).fit(X, sensitive_features=group)
    U = fair.transform(X)
    U = U @ np.linalg.inv(np.linalg.cholesky(np.cov(U.T, bias=True))).T
    gaps = []
    for level in range(3):
        one, other = (np.cov(U[side].T, bias=True) for side in (group == level, group != level))
        gaps.append(np.linalg.norm(one - other, 2))
    assert max(gaps) == pytest.approx(fair.whitened_cov_gap_)
    assert max(gaps) <= limit * (1 + 1e-9)
    assert fair.mean_gap_ < 1e-12
    with pytest.raises(InfeasibleError, match="smallest whitened covariance gap is") as caught:
        SparseFairPCA(2, n_nonzero=4, cov_tol=1e-6).fit(X, sensitive_features=group)
    assert caught.value.parameter == "cov_tol"
    with pytest.raises(InfeasibleError) as of_path:
        SparseFairPCA(2, n_nonzero="path", cov_tol=1e-6).fit(X, sensitive_features=group)
    assert of_path.value.minimum < caught.value.minimum


def test_levels_of_one_column_are_budgeted_together():
    rng = np.random.default_rng(1)
    group, colour = rng.integers(0, 2, 400), rng.integers(0, 4, 400)
    numbers = rng.normal(size=(400, 4)) + np.outer(group, [1.0, 0.5, 0.2, 0.0])
    numbers[:, 0] += colour
    X = np.column_stack([numbers, np.eye(4)[colour]])
    labels = ["a", "b", "c", "d", *["colour"] * 4]
    fair = SparseFairPCA(2, n_nonzero=3, standardize=True, feature_groups=labels)
    fair.fit(X, sensitive_features=group)
    for component in fair.components_:
        assert (
            len({label for label, loading in zip(labels, component, strict=True) if loading}) <= 3
        )
    assert fair.n_nonzero_.max() > 3
    # All levels together are constant: no component spends loadings on that.
    assert np.abs(fair.components_[:, 4:] @ fair.scale_[4:]).max() < 1e-8
    assert fair.mean_gap_ < 1e-12
    with pytest.raises(InvalidInputError, match="8 features"):
        SparseFairPCA(feature_groups=["a"]).fit(X, sensitive_features=group)


def test_columns_of_names_are_groups_of_features():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    colour = rng.integers(0, 3, 300)
    names = ["colour=red", "colour=green", "colour=blue", "weight", "length", "sex"]
    parts = np.eye(3)[colour], rng.normal(size=(300, 2)), rng.integers(0, 2, 300)[:, None]
    table = pandas.DataFrame(np.column_stack(parts), columns=names)
    table["sex"] = table["sex"].astype(int)
    named = SparseFairPCA(1, n_nonzero=2, feature_groups="columns").fit(
        table, sensitive_features="sex"
    )
    given = SparseFairPCA(1, n_nonzero=2, feature_groups=[0, 0, 0, 1, 2]).fit(
        table, sensitive_features="sex"
    )
    np.testing.assert_array_equal(named.components_, given.components_)


def test_wide_rows_batches_and_files(rows, tmp_path):
    rng = np.random.default_rng(3)
    wide, group = rng.normal(size=(40, 150)), np.arange(40) % 2
    fair = SparseFairPCA(2, n_nonzero=4, whiten=True).fit(wide, sensitive_features=group)
    assert fair.mean_gap_ < 1e-12
    np.testing.assert_allclose(fair.transform(wide).var(axis=0), 1.0)
    again = load_model(fair.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.transform(wide), fair.transform(wide))
    np.testing.assert_array_equal(
        again.inverse_transform(wide[:, :2]), fair.inverse_transform(wide[:, :2])
    )
    X, group = rows
    parts = SparseFairPCA(2, n_nonzero=4)
    for start in range(0, 600, 200):
        some = slice(start, start + 200)
        parts.partial_fit(X[some], sensitive_features=group[some])
    whole = SparseFairPCA(2, n_nonzero=4).fit(X, sensitive_features=group)
    np.testing.assert_allclose(parts.components_, whole.components_, atol=1e-8)


def test_what_it_cannot_do_is_refused_in_words(rows):
    X, group = rows
    fair = SparseFairPCA(2).fit(X, sensitive_features=group)
    with pytest.raises(InvalidInputError, match="not orthogonal"):
        fair.to_sklearn()
    with pytest.raises(InfeasibleError, match="n_components=11 is too many"):
        SparseFairPCA(11, n_nonzero=12).fit(X, sensitive_features=group)


def test_without_a_constraint_on_means_more_is_explained(rows):
    X, group = rows
    free, fair = (
        SparseFairPCA(2, n_nonzero=6, mean_tol=tol).fit(X, sensitive_features=group)
        for tol in (None, 0.0)
    )
    assert free.explained_variance_ratio_.sum() > fair.explained_variance_ratio_.sum()
    assert free.mean_gap_ > 0.1


@pytest.mark.parametrize("r", [0, 1, 2])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_scores_of_additions_are_those_of_one_eigenproblem_for_each(r, m):
    rng = np.random.default_rng(r)
    S = random_problem(r, 7, 1, 2).covariance
    F = independent_rows(rng.normal(size=(r, 7)), 1e-12)
    supports = np.array([rng.choice(7, m - 1, replace=False) for _ in range(3)])
    problem = SparseProblem.pose(S, F, np.zeros((0, 7, 7)), 1, m)
    values = addition_values(problem, np.zeros((7, 0)), supports)
    for support, row in zip(supports, values, strict=True):
        for new, value in enumerate(row):
            if new in support:
                assert value == -np.inf
                continue
            larger = [*support, new]
            at = np.ix_(larger, larger)
            best = scipy.linalg.eigvalsh((S @ S)[at], S[at])[-1]
            assert value <= best * (1 + 1e-9)  # a mean gap costs
            if not r:
                assert value == pytest.approx(best, rel=1e-3)
            elif m > r:
                N = complement_basis(F[:, larger], 1e-12)
                pair = (N.T @ matrix[at] @ N for matrix in (S @ S, S))
                # Newton's method ends after a few steps, on the lower side.
                assert value >= 0.75 * scipy.linalg.eigvalsh(*pair)[-1]


def test_a_positive_mean_tol_bounds_the_mean_gap_and_explains_more(rows):
    X, group = rows
    equal, bounded, free = (
        SparseFairPCA(2, n_nonzero=6, mean_tol=tol).fit(X, sensitive_features=group)
        for tol in (0.0, 0.4, None)
    )
    assert free.mean_gap_ > 0.4 >= bounded.mean_gap_ > 0.1
    shares = [fair.explained_variance_ratio_.sum() for fair in (equal, bounded, free)]
    assert shares[0] < shares[1] < shares[2]
    assert bounded.certificate_.objective <= bounded.certificate_.bound
    narrow = SparseFairPCA(2, n_nonzero=12, mean_tol=1e-3).fit(X, sensitive_features=group)
    assert narrow.mean_gap_ <= 1e-3
    both = SparseFairPCA(2, n_nonzero=6, mean_tol=0.4, cov_tol=0.3)
    both.fit(X, sensitive_features=group)
    assert both.mean_gap_ <= 0.4
    assert both.whitened_cov_gap_ <= 0.3


def test_a_start_is_kept_where_it_is_better():
    problem = random_problem(6, 8, 1, 2)
    F = independent_rows(problem.mean_gaps, 1e-12)
    small, large = (
        SparseProblem.pose(problem.covariance, F, problem.cov_gaps, 2, k) for k in (3, 5)
    )
    best = solve_sparse(small)._replace(value=1e9)
    kept = solve_sparse(large, [best])
    assert kept.value == 1e9
    np.testing.assert_allclose(kept.V, best.V)


def test_results_do_not_depend_on_units_of_the_covariance():
    problem = random_problem(5, 10, 1, 2)
    F = independent_rows(problem.mean_gaps, 1e-12)
    small, large = (
        solve_sparse(SparseProblem.pose(c * problem.covariance, F, problem.cov_gaps, 2, 4)).V
        for c in (1e-6, 1e6)
    )
    np.testing.assert_allclose(small, large, atol=1e-6)


def test_a_component_on_real_data_is_small_and_nearly_as_good():
    diabetes = load_diabetes_sex()
    fair = SparseFairPCA(2, n_nonzero=4, standardize=True)
    fair.fit(diabetes.data, sensitive_features=diabetes.sensitive_features)
    assert fair.certificate_.gap < 0.02
    assert "explained objective" in repr(fair.certificate_)


def test_a_long_search_is_announced_with_what_is_quick(monkeypatch, rows):
    X, group = rows
    fair = SparseFairPCA(2, n_nonzero="path").fit(X, sensitive_features=group)
    assert fair.n_samples_ == 600
    monkeypatch.setattr("fairpca.estimators._sparse_fair_pca.LONG_FIT", 1e-3)
    with pytest.warns(LongFitWarning, match="at most 12 of 12 features.*n_nonzero=4"):
        fair.fit(X, sensitive_features=group)


def test_what_exceeds_a_limit_by_little_is_worth_less_than_all_within_it(rows):
    X, group = rows
    moments = GroupMoments.from_arrays(X, group)
    contrasts = moments.contrasts()
    S, Q = moments.pooled().covariance, 1e-9 * contrasts.cov_gaps
    F = independent_rows(contrasts.mean_gaps, 1e-11)
    problem = SparseProblem.pose(S, F, Q, 2, 4, 1e-13)
    state = solve_sparse(problem)
    assert problem.excess(state.V) < 1e-8
    assert state.value < 0


def test_a_limit_on_correlated_scores_is_met(rows):
    X, group = rows
    with pytest.warns(CorrelatedScoresWarning):
        free = SparseFairPCA(3, n_nonzero=4).fit(X, sensitive_features=group)
    limit = 0.4 * free.whitened_cov_gap_
    with pytest.warns(CorrelatedScoresWarning):
        fair = SparseFairPCA(3, n_nonzero=4, cov_tol=limit).fit(X, sensitive_features=group)
    assert fair.whitened_cov_gap_ <= limit


def test_a_small_difference_of_means_is_a_difference():
    X, z = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 2
    for side in (0, 1):
        X[z == side] -= X[z == side].mean(axis=0)
    X[:, 0] += 1e-6 * z
    sparse = SparseFairPCA(2, n_nonzero=4).fit(X, sensitive_features=z)
    assert sparse.mean_gap_ < 1e-13
