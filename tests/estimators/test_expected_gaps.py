"""expected_gaps: closed forms against simulation, the bound, draws, units, and mistakes."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from fairpca import FairPCA, GroupMoments, load_model
from fairpca.estimators._comparison import expected_figures
from fairpca.exceptions import InvalidInputError
from fairpca.moments._new_data import compared_contrasts, draw_moments, forecast_means, hotelling


def made(n, seed, p=6, gap=0.5):
    random = np.random.default_rng(seed)
    z = (np.arange(n) % 10 < 4).astype(int)
    X = random.normal(size=(n, p)) * np.linspace(2.0, 0.5, p)
    return X + gap * np.outer(z, np.r_[np.zeros(p - 1), 1.0]), z


def test_plain_components_are_corrected_and_constrained_ones_are_not():
    X, z = made(500, 0)
    plain = FairPCA(6, mean_tol=None, cov_weight=0.0).fit(X, sensitive_features=z)
    noise = sum(np.trace(np.cov(X[z == k].T)) / np.sum(z == k) for k in (0, 1))
    gap = X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0)
    forecast = plain.expected_gaps(n_new=1000, refits=0).features
    assert forecast.mean_gap == pytest.approx(np.sqrt(gap @ gap - noise))
    assert forecast.mean_gap_new == pytest.approx(np.sqrt(gap @ gap - noise + noise / 2))
    fair = FairPCA(2, cov_weight=0.0).fit(X, sensitive_features=z)
    U = fair.transform(X)
    noise = sum(np.trace(np.cov(U[z == k].T)) / np.sum(z == k) for k in (0, 1))
    forecast = fair.expected_gaps(refits=0)
    assert forecast.features.mean_gap == pytest.approx(np.sqrt(noise))
    white = FairPCA(2, cov_weight=0.0, whiten=True).fit(X, sensitive_features=z).transform(X)
    noise = sum(np.trace(np.cov(white[z == k].T)) / np.sum(z == k) for k in (0, 1))
    assert forecast.deviations.mean_gap == pytest.approx(np.sqrt(noise))


def test_the_expected_gap_is_that_of_many_samples():
    gaps, expected, new = [], [], []
    for seed in range(200):
        X, z = made(300, seed)
        fair = FairPCA(2, cov_weight=0.0, certify=False).fit(X, sensitive_features=z)
        gaps.append(0.5 * np.linalg.norm(fair.components_[:, -1]))
        forecast = fair.expected_gaps(n_new=100, refits=0).features
        Y, y = made(100, seed + 1000)
        U = fair.transform(Y)
        new.append(np.linalg.norm(U[y == 1].mean(axis=0) - U[y == 0].mean(axis=0)))
        expected.append((forecast.mean_gap, forecast.mean_gap_new))
    on_population, on_new = np.sqrt(np.mean(np.square(expected), axis=0))
    assert np.sqrt(np.mean(np.square(new))) == pytest.approx(on_new, rel=0.2)
    assert np.sqrt(np.mean(np.square(gaps))) < 1.3 * on_population


def test_the_bound_is_wider_for_more_contrasts_and_confidence():
    X, z = made(600, 0)
    three = np.arange(600) % 3
    fair = FairPCA(2, cov_weight=0.0).fit(X, sensitive_features=z)
    bounds = [fair.expected_gaps(confidence=c, refits=0).features.mean_bound for c in (0.5, 0.95)]
    assert 0.0 < bounds[0] < bounds[1]
    more = FairPCA(2, cov_weight=0.0, mean_tol=None).fit(X, sensitive_features=np.c_[z, three])
    pairs = compared_contrasts(more.moments_, "one-vs-rest", False, None, None)
    options = (more.components_, np.eye(2), True, None, 0.95)
    alone = [forecast_means([pair], *options).mean_bound for pair in pairs]
    assert forecast_means(pairs, *options).mean_bound > 1.05 * max(alone)


def test_hotelling_tends_to_chi_squared_and_is_infinite_with_too_few_rows():
    from scipy.stats import chi2

    assert hotelling(4, 1e7, 0.95) == pytest.approx(chi2.ppf(0.95, 4), rel=1e-4)
    assert hotelling(4, 3.9, 0.95) == np.inf
    X, z = made(12, 0, p=11)
    fair = FairPCA(1, cov_weight=0.0).fit(X, sensitive_features=z)
    forecast = fair.expected_gaps(refits=0)
    assert forecast.features.mean_bound == np.inf
    assert "no bound" in repr(forecast)


def test_drawn_moments_have_the_spread_of_moments_of_rows():
    X, _ = made(80, 0, p=3)
    age = np.random.default_rng(5).normal(size=80)
    moments = GroupMoments.from_arrays(X, age, numeric=["sensitive_feature"])
    random = np.random.default_rng(0)
    drawn, fresh = [], []
    S = moments.pooled().covariance
    root = np.linalg.cholesky(S)
    for _ in range(400):
        parts = [draw_moments(moments, random)]
        rows = random.normal(size=(80, 3)) @ root.T
        parts.append(
            GroupMoments.from_arrays(rows, random.normal(size=80), numeric=["sensitive_feature"])
        )
        for part, into in zip(parts, (drawn, fresh), strict=True):
            pooled, [contrast] = part.pooled(), part.contrasts()
            into.append(
                np.r_[
                    pooled.mean,
                    pooled.covariance[np.triu_indices(3)],
                    contrast.mean_gap,
                    contrast.cov_gap[np.triu_indices(3)],
                ]
            )
    np.testing.assert_allclose(np.std(drawn, axis=0), np.std(fresh, axis=0), rtol=0.35)
    np.testing.assert_allclose(np.mean(drawn, axis=0)[3:9], np.mean(fresh, axis=0)[3:9], atol=0.2)


def test_groups_of_fewer_rows_than_features_can_be_drawn():
    X, z = made(10, 0, p=8)
    moments = draw_moments(GroupMoments.from_arrays(X, z), np.random.default_rng(0))
    assert np.linalg.matrix_rank(moments.group_covariances().covariances[1]) == 3


def test_the_covariance_gap_of_refits_exceeds_the_fitted_one():
    random = np.random.default_rng(0)
    z = np.arange(400) % 2
    X = random.normal(size=(400, 6)) * np.where(z[:, None], 1.0, [1.5, 1.4, 1.0, 0.8, 0.7, 1.2])
    fair = FairPCA(2, standardize=True).fit(X, sensitive_features=z)
    forecast = fair.expected_gaps(refits=8)
    assert forecast.features.cov_gap > fair.cov_gap_
    assert forecast.refits == 8
    assert "covariance gap: expected" in repr(forecast)
    assert fair.expected_gaps(refits=8) == forecast


def test_a_loaded_model_knows_the_same_and_one_without_moments_says_so(tmp_path):
    X, z = made(300, 0)
    fair = FairPCA(2).fit(X, sensitive_features=z, units=np.arange(300) // 3)
    again = load_model(fair.save(tmp_path / "model", with_moments=True))
    assert again.expected_gaps() == fair.expected_gaps()
    np.testing.assert_allclose(again.effective_samples_, fair.effective_samples_)
    bare = load_model(fair.save(tmp_path / "bare"))
    with pytest.raises(InvalidInputError, match="saved without its moments"):
        bare.expected_gaps()


def test_wide_rows_and_no_groups():
    random = np.random.default_rng(0)
    X, z = random.normal(size=(60, 300)), np.arange(60) % 2
    fair = FairPCA(2, cov_weight=0.0, standardize=True).fit(X, sensitive_features=z)
    U, S = fair.transform(X), 0.0
    for k in (0, 1):
        S += np.trace(np.cov(U[z == k].T)) / np.sum(z == k)
    assert fair.expected_gaps(refits=0).features.mean_gap == pytest.approx(np.sqrt(S), rel=1e-6)
    plain = FairPCA(2, missing_groups="ignore").fit(X[:, :5])
    assert plain.expected_gaps(refits=2).features == (0.0, None, 0.0, 0.0)


def test_units_are_counted_instead_of_rows():
    """New persons: by rows the bound fails, by units it holds."""
    held = {False: 0, True: 0}
    for seed in range(12):
        random = np.random.default_rng(seed)
        person = np.repeat(np.arange(60), 20)
        z = person % 2
        persons = random.normal(size=(60, 4)) + np.outer(np.arange(60) % 2, [0, 0, 0.7, 0.7])
        X = persons[person] + 0.3 * random.normal(size=(1200, 4))
        for by_units in held:
            units = {"units": person} if by_units else {}
            fair = FairPCA(2, cov_weight=0.0).fit(X, sensitive_features=z, **units)
            true = 0.7 * np.linalg.norm(fair.components_[:, 2:].sum(axis=1))
            forecast = fair.expected_gaps(refits=0)
            assert forecast.counted == ("units" if by_units else "rows")
            held[by_units] += true <= forecast.features.mean_bound
    assert held[True] == 12
    assert held[False] < 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_new": 0}, "n_new=0: give a whole number"),
        ({"n_new": 2.5}, "n_new=2.5"),
        ({"confidence": 1.0}, "confidence=1.0: give a number between"),
        ({"refits": -1}, "refits=-1: give a whole number"),
    ],
)
def test_mistakes_are_named(options, message):
    X, z = made(60, 0)
    with pytest.raises(InvalidInputError, match=message) as caught:
        FairPCA(2).fit(X, sensitive_features=z).expected_gaps(**options)
    assert caught.value.parameter == next(iter(options))


def test_streams_have_no_units():
    import pyarrow as pa

    X, z = made(60, 0)
    table = pa.table({**{f"x{i}": X[:, i] for i in range(6)}, "z": z, "person": np.arange(60) // 2})
    with pytest.raises(InvalidInputError, match="units need rows in memory") as caught:
        FairPCA(2).fit(table.to_reader(), sensitive_features="z", units="person")
    assert caught.value.parameter == "units"
    assert FairPCA(2).fit(table.to_reader(), sensitive_features="z").effective_samples_ is None


def test_a_forecast_that_held_out_rows_contradict_says_so():
    X, z = np.random.default_rng(0).normal(size=(300, 4)), np.arange(300) % 2
    model = FairPCA(2).fit(X, sensitive_features=z)
    gap = expected_figures(model, None)["mean_gap"]
    for shown, error, warned in (
        (3.0, 0.2, True),
        (3.0, 0.6, False),
        (1.9, 0.0, False),
        (np.inf, 0.0, False),
        (np.inf, np.inf, False),
    ):
        held_out = {"mean_gap": shown * gap, "mean_gap_error": error * gap}
        assert ("rely on them" in expected_figures(model, held_out)["text"]) is warned


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_bound_of_one_feature_is_the_interval_of_welch(confidence):
    random = np.random.default_rng(2)
    first, second = random.normal(1.0, 2.0, 12), random.normal(0.0, 0.5, 30)
    X, z = np.concatenate([first, second])[:, None], np.repeat([1, 0], [12, 30])
    plain = FairPCA(1, mean_tol=None, cov_weight=0.0).fit(X, sensitive_features=z)
    found = plain.expected_gaps(confidence=confidence, refits=0).features.mean_bound
    limits = ttest_ind(first, second, equal_var=False).confidence_interval(confidence)
    assert found == pytest.approx(max(limits.high, -limits.low))
