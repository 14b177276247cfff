"""Bounds, gaps, clustering parity, explained variance and the audit."""

import json
import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import divergence
from fairpca.metrics import (
    audit,
    cluster_parity_std,
    cov_gap,
    delta_bound,
    delta_fairness,
    explained_variance,
    gaussian_bound,
    mean_gap,
    mmd2,
)


@pytest.fixture
def two_groups():
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], [80, 60])
    U = rng.normal(size=(140, 3)) @ rng.normal(size=(3, 3)) + 0.7 * z[:, None]
    U[z == 1] *= [1.0, 1.5, 0.7]
    return U, z


class TestDeltaBound:
    def test_is_the_proposition(self):
        slack = math.sqrt(2 * math.log(20) / 5000)
        expected = 0.2 + 8 * math.sqrt(4 / 5000) + slack
        assert delta_bound(0.2, 5000, 3) == pytest.approx(expected)
        # P[Δ > bound] ≤ exp(−nη²/2) at the η used.
        assert math.exp(-5000 * slack**2 / 2) == pytest.approx(0.05)

    def test_takes_a_result_and_group_sizes(self, two_groups):
        U, z = two_groups
        result = delta_fairness(U[:, :2], z, method="exact")
        assert delta_bound(result, result.worst.n_rows, 2) == delta_bound(result.value, 140, 2)

    def test_refuses_what_is_no_supremum(self, two_groups):
        # A bound of the SVM's value was below what a half-space attains (0.082 against 0.32).
        U, z = two_groups
        weight = np.linspace(1, 2, 140)
        line = delta_fairness(U[:, 0], z)
        assert delta_bound(line, (80, 60), method="dkw") > line.value
        no_supremum = [
            delta_fairness(U, z),
            delta_fairness(U, z, method="search"),
            delta_fairness(U[:, :2], z, method="exact", sample_weight=weight),
            delta_fairness(U, z, family="cdf", method="exact", orthants="all"),
            delta_fairness(U, z, family="rbf", C=1.0, gamma=1.0),
        ]
        for result in no_supremum:
            assert not result.supremum
            with pytest.raises(InvalidInputError, match="bounds a supremum only"):
                delta_bound(result, 140, 3)
        with pytest.raises(InvalidInputError, match="bounds a supremum only"):
            delta_bound(delta_fairness(U[:, :2], z, method="exact"), (80, 60), method="dkw")

    def test_the_sharper_bound_of_one_direction(self):
        wide = delta_bound(0.1, 2000, 2)
        sharp = delta_bound(0.1, (1000, 1000), method="dkw")
        assert 0.1 < sharp < wide
        assert 2 * 2 * math.exp(-2 * 1000 * ((sharp - 0.1) / 2) ** 2) == pytest.approx(0.05)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((1.5, 100, 2), "between 0 and 1"),
            ((0.5, 0, 2), "n_samples"),
            ((0.5, 100, 0), "n_components"),
            ((0.5, 100), "n_components"),
            ((0.5, 100, 2, 1.0), "confidence"),
        ],
    )
    def test_bad_input(self, arguments, message):
        with pytest.raises(InvalidInputError, match=message):
            delta_bound(*arguments)

    def test_bad_method(self):
        with pytest.raises(InvalidInputError, match="pair"):
            delta_bound(0.1, 100, method="dkw")
        with pytest.raises(InvalidInputError, match="'vc' or 'dkw'"):
            delta_bound(0.1, 100, 2, method="hoeffding")


def pinsker(w, gap, cov, reference):
    s, s_ref = w @ cov @ w, w @ reference @ w
    return 0.5 * math.sqrt(s / s_ref + (w @ gap) ** 2 / s_ref + math.log(s_ref / s) - 1)


def minus_pinsker(w, gap, cov, reference):
    return -pinsker(w, gap, cov, reference)


class TestGaussianBound:
    def test_is_the_supremum_over_directions(self, two_groups):
        U, z = two_groups
        rng = np.random.default_rng(1)
        moments = [(U[z == k].mean(0), np.cov(U[z == k].T, bias=True)) for k in (0, 1)]
        gap = moments[1][0] - moments[0][0]
        ways = []
        for cov, reference in ((moments[0][1], moments[1][1]), (moments[1][1], moments[0][1])):
            negative = partial(minus_pinsker, gap=gap, cov=cov, reference=reference)
            start = min(rng.normal(size=(2000, 3)), key=negative)
            ways.append(-minimize(negative, start, method="Nelder-Mead", tol=1e-10).fun)
        assert gaussian_bound(U, z) == pytest.approx(min(ways), rel=1e-4)

    @pytest.mark.parametrize("d", [1, 2, 6])
    def test_linearisation_search_beats_local_search(self, d):
        rng = np.random.default_rng(d)
        for _ in range(5):
            A, B = (rng.normal(size=(d, d + 2)) for _ in range(2))
            cov, reference, gap = A @ A.T, B @ B.T, rng.normal(size=d)
            found = divergence(gap, cov, reference)
            starts = rng.normal(size=(10, d))
            best = max(
                minimize(minus_pinsker, w, args=(gap, cov, reference), method="Nelder-Mead").fun
                ** 2
                for w in starts
            )
            assert found >= 4 * best - 1e-6

    def test_bounds_delta_of_gaussian_samples(self):
        rng = np.random.default_rng(2)
        z = np.repeat([0, 1], 5000)
        U = rng.normal(size=(10_000, 2)) * np.where(z, 1.3, 1.0)[:, None] + 0.2 * z[:, None]
        assert delta_fairness(U, z, method="svm").value < gaussian_bound(U, z)

    def test_equal_groups_and_constant_components(self, two_groups):
        U, _ = two_groups
        z = np.repeat([0, 1], len(U))
        doubled = np.vstack([U, U])
        assert gaussian_bound(doubled, z) == pytest.approx(0.0, abs=1e-6)
        with_constant = np.column_stack([doubled, np.ones(len(doubled))])
        assert gaussian_bound(with_constant, z) == pytest.approx(0.0, abs=1e-6)
        assert gaussian_bound(np.ones(len(z)), z) == 0.0

    def test_is_infinite_where_a_group_does_not_vary(self):
        z = np.repeat([0, 1], 10)
        u = np.where(z == 1, np.arange(20), 0.0)
        assert gaussian_bound(u, z) == math.inf


class TestGaps:
    def test_mean_and_covariance_gap(self, two_groups):
        U, z = two_groups
        a, b = U[z == 0], U[z == 1]
        assert mean_gap(U, z) == pytest.approx(np.linalg.norm(b.mean(0) - a.mean(0)))
        difference = np.cov(b.T, bias=True) - np.cov(a.T, bias=True)
        assert cov_gap(U, z) == pytest.approx(np.linalg.norm(difference, 2))

    def test_weights_strata_and_several_groups(self, two_groups):
        U, z = two_groups
        weight = np.random.default_rng(1).integers(1, 4, size=140)
        for measure in (mean_gap, cov_gap, gaussian_bound):
            repeated = measure(np.repeat(U, weight, axis=0), np.repeat(z, weight))
            assert measure(U, z, sample_weight=weight) == pytest.approx(repeated)
            strata = np.arange(140) % 2
            parts = [measure(U[strata == s], z[strata == s]) for s in (0, 1)]
            assert measure(U, z, control_features=strata) == pytest.approx(max(parts))
        three = np.arange(140) % 3
        pairs = [three != k for k in range(3)]
        expected = max(mean_gap(U[p], three[p]) for p in pairs)
        assert mean_gap(U, three, compare="pairs") == pytest.approx(expected)

    @pytest.mark.parametrize("unbiased", [False, True])
    def test_mmd2_is_the_naive_sum(self, two_groups, unbiased, monkeypatch):
        monkeypatch.setattr("fairpca.metrics.gaps._NUMBERS_AT_ONCE", 2000)
        U, z = two_groups
        K = rbf_kernel(U, gamma=0.3)
        a, b = z == 1, z == 0
        terms = []
        for group in (a, b):
            inside, size = K[np.ix_(group, group)], group.sum()
            off = (inside.sum() - np.trace(inside)) / (size * (size - 1))
            terms.append(off if unbiased else inside.mean())
        expected = sum(terms) - 2 * K[np.ix_(a, b)].mean()
        assert mmd2(U, z, gamma=0.3, unbiased=unbiased) == pytest.approx(expected)
        weight = np.full(140, 2.0)
        weight[0] = 1.0
        assert mmd2(U, z, gamma=0.3, unbiased=unbiased, sample_weight=weight) != expected

    def test_mmd2_uses_the_median_distance(self, two_groups):
        U, z = two_groups
        squares = ((U[:, None] - U[None]) ** 2).sum(axis=2)[np.triu_indices(140, 1)]
        assert mmd2(U, z) == pytest.approx(mmd2(U, z, gamma=1 / np.median(squares)))
        assert mmd2(np.ones((10, 2)), np.arange(10) % 2) == pytest.approx(0.0, abs=1e-12)
        with pytest.raises(InvalidInputError, match="gamma"):
            mmd2(U, z, gamma=0.0)


class TestClusters:
    def test_shares_in_percentage_points(self):
        labels = np.repeat([0, 1, 2], 10)
        z = np.zeros(30, dtype=int)
        z[[0, 1, 10, 11, 12, 20]] = 1  # 20 %, 30 % and 10 %
        assert cluster_parity_std(labels, z) == pytest.approx(np.std([20, 30, 10]))
        weight = np.ones(30)
        weight[z == 0] = 0.5
        shares = [2 / 6, 3 / 6.5, 1 / 5.5]
        expected = 100 * np.std(shares)
        assert cluster_parity_std(labels, z, sample_weight=weight) == pytest.approx(expected)

    def test_largest_group(self):
        labels = [0, 0, 0, 1, 1, 1]
        z = ["a", "b", "c", "a", "b", "b"]
        assert cluster_parity_std(labels, z) == pytest.approx(100 * np.std([1 / 3, 2 / 3]))

    def test_bad_input(self):
        with pytest.raises(GroupsError, match="bin it first"):
            cluster_parity_std([0, 0, 1], [0.1, 0.2, 0.3])
        with pytest.raises(GroupsError, match="rows"):
            cluster_parity_std([0, 0, 1], ["a", "b"])
        with pytest.raises(InvalidInputError, match="sample_weight"):
            cluster_parity_std([0, 1], ["a", "b"], sample_weight=[1.0])


class TestExplainedVariance:
    def test_is_that_of_pca(self, two_groups):
        U, _ = two_groups
        pca = PCA(2).fit(U)
        expected = pca.explained_variance_ratio_.sum()
        assert explained_variance(U, components=pca.components_) == pytest.approx(expected)
        assert explained_variance(U, U=pca.transform(U)) == pytest.approx(expected)
        skewed = np.array([[1.0, 2.0], [0.0, 0.1]]) @ pca.components_
        assert explained_variance(U, components=skewed) == pytest.approx(expected)

    def test_weights_are_repeated_rows(self, two_groups):
        U, _ = two_groups
        weight = np.random.default_rng(0).integers(1, 4, size=140)
        rows = np.repeat(U, weight, axis=0)
        for options in ({"components": [[1.0, 0.0, 1.0]]}, {"U": U[:, :1] + U[:, 1:2]}):
            wide = {k: np.repeat(v, weight, axis=0) if k == "U" else v for k, v in options.items()}
            assert explained_variance(U, sample_weight=weight, **options) == pytest.approx(
                explained_variance(rows, **wide)
            )

    def test_bad_input(self, two_groups):
        U, _ = two_groups
        with pytest.raises(InvalidInputError, match="either components or U"):
            explained_variance(U)
        with pytest.raises(InvalidInputError, match="4 columns"):
            explained_variance(U, components=np.eye(4))
        with pytest.raises(InvalidInputError, match="U has 3 rows"):
            explained_variance(U, U=U[:3])
        with pytest.raises(InvalidInputError, match="does not vary"):
            explained_variance(np.ones((5, 2)), components=[[1.0, 0.0]])
        with pytest.raises(InvalidInputError, match="sample_weight"):
            explained_variance(U, components=np.eye(3), sample_weight=[1.0])


class TestAudit:
    def test_has_every_family_with_its_null(self, two_groups):
        U, z = two_groups
        report = audit(U[:, :2], z, adversaries=(), effort="quick")
        data = json.loads(json.dumps(report.to_dict()))["representations"][0]
        rows = {(row["family"], row["method"]): row for row in data["in_sample"]}
        assert set(rows) == {
            ("linear", "svm"),
            ("linear", "search"),
            ("rbf", "svm"),
            ("cdf", "search"),
        }
        for row in rows.values():
            assert row["p_value"] is not None
        assert data["gaps"]["mean_gap"] == pytest.approx(mean_gap(U[:, :2], z))
        text = repr(report)
        assert "140 rows" in text
        assert "Gaussian bound" in text

    def test_one_component_is_exact(self):
        z = np.repeat([0, 1], 40)
        options = {"families": ("linear", "cdf"), "adversaries": (), "effort": "quick"}
        [one] = audit(np.arange(80.0), z, **options).representations
        assert [(r.family, r.method) for r in one.in_sample] == [
            ("linear", "exact"),
            ("cdf", "search"),
        ]
        assert one.in_sample[0].value == one.in_sample[1].value == 1.0

    def test_infinite_bound_is_null_in_json(self):
        z = np.repeat([0, 1], 10)
        U = np.where(z == 1, np.arange(20), 0.0)
        report = audit(U, z, families=(), adversaries=(), effort="quick")
        assert report.to_dict()["representations"][0]["gaps"]["gaussian_bound"] is None
