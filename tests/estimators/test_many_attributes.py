"""Several attributes, values, intersections, strata and numbers, judged from the rows."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from support import data_folder

from fairpca import FairPCA, GroupMoments
from fairpca.datasets import fetch_adult, fetch_compas
from fairpca.exceptions import GroupsError, SmallGroupWarning


def standardize(frame):
    X = pd.get_dummies(frame, drop_first=True, dtype=float).to_numpy(dtype=float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def gaps(U, mask, rest=None):
    rest = ~mask if rest is None else rest
    mean = np.linalg.norm(U[mask].mean(axis=0) - U[rest].mean(axis=0))
    cov = np.cov(U[mask].T, bias=True) - np.cov(U[rest].T, bias=True)
    return mean, np.linalg.norm(np.atleast_2d(cov), 2)


@pytest.fixture(scope="module")
def made():
    """Two attributes with different shares and unequal means, which also interact."""
    rng = np.random.default_rng(0)
    n = 1200
    sex, race = rng.random(n) < 0.35, rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(n, 9))
    X += np.outer(sex, rng.normal(size=9)) + np.outer(race == "b", rng.normal(size=9))
    X[sex, :3] *= 1.4
    X[race == "c", 2:5] *= 0.6
    X[sex & (race == "a"), 5:7] *= 1.8
    return X, pd.DataFrame({"sex": np.where(sex, "f", "m"), "race": race})


def test_gaps_of_two_attributes_against_the_rows(made):
    X, groups = made
    fair = FairPCA(2).fit(X, sensitive_features=groups)
    U, table = fair.transform(X), fair.contrasts_
    assert table["attribute"] == ["sex", "race", "race", "race"]
    masks = [groups["sex"] == "m", *(groups["race"] == race for race in "abc")]
    for i, mask in enumerate(np.array(mask) for mask in masks):
        mean, cov = gaps(U, mask)
        assert table["mean_gap"][i] == pytest.approx(mean, abs=1e-10)
        assert table["cov_gap"][i] == pytest.approx(cov, abs=1e-9)
        assert table["cov_gap_before"][i] == pytest.approx(gaps(X, mask)[1])
    assert fair.cov_gap_ == pytest.approx(max(table["cov_gap"]))
    assert fair.mean_gap_ <= 1e-10


@pytest.mark.parametrize("solver", ["refined", "deflation", "tight"])
@pytest.mark.parametrize("joint", [False, True])
def test_every_contrast_meets_the_tolerance(made, solver, joint):
    X, groups = made
    tol = 0.6 if joint else 0.3
    fair = FairPCA(2, cov_tol=tol, joint=joint, min_group_size=2, solver=solver).fit(
        X, sensitive_features=groups
    )
    U = fair.transform(X)
    cells = [groups["sex"] == "f", *(groups["race"] == r for r in "abc")]
    if joint:
        cells += [
            (groups["sex"] == s) & (groups["race"] == r) for s, r in itertools.product("fm", "abc")
        ]
    for cell in cells:
        mean, cov = gaps(U, np.array(cell))
        assert mean <= 1e-10
        assert cov <= tol * (1 + 1e-6)
    assert len(fair.contrasts_["attribute"]) == len(cells)


def test_paper_solver_with_several_attributes(made):
    X, groups = made
    certificate = FairPCA(2, solver="paper").fit(X, sensitive_features=groups).certificate_
    refined = FairPCA(2).fit(X, sensitive_features=groups).certificate_
    assert certificate.bound_solved
    assert not certificate.basis_settled  # rounded, not ascended
    assert certificate.objective <= refined.objective <= certificate.bound


@pytest.mark.parametrize("compare", ["pairs", "reference"])
def test_other_contrasts(made, compare):
    X, groups = made
    reference = {"reference": "a"} if compare == "reference" else {}
    fair = FairPCA(2, compare=compare, cov_tol=0.2, **reference)
    fair.fit(X, sensitive_features=groups["race"])
    U, race = fair.transform(X), groups["race"].to_numpy()
    pairs = [("b", "a"), ("c", "a")] + ([("c", "b")] if compare == "pairs" else [])
    assert len(fair.contrasts_["positive"]) == len(pairs)
    for one, other in pairs:
        mean, cov = gaps(U, race == one, race == other)
        assert mean <= 1e-10
        assert cov <= 0.2 * (1 + 1e-6)


def test_frames_arrays_and_moments_agree(made):
    X, groups = made
    reference = FairPCA(2, joint=True, min_group_size=2).fit(X, sensitive_features=groups)
    for values in (pl.from_pandas(groups), groups.to_numpy(dtype=object)):
        fair = FairPCA(2, joint=True, min_group_size=2).fit(X, sensitive_features=values)
        np.testing.assert_allclose(fair.components_, reference.components_, atol=1e-7)
    moments = GroupMoments.from_arrays(X[:500], groups[:500])
    moments = moments + GroupMoments.from_arrays(X[500:], groups[500:])
    fair = FairPCA(2, joint=True, min_group_size=2).fit_moments(moments)
    np.testing.assert_allclose(fair.components_, reference.components_, atol=1e-7)
    batched = FairPCA(2, joint=True, min_group_size=2)
    for start in range(0, len(X), 400):
        rows = slice(start, start + 400)
        batched.partial_fit(X[rows], sensitive_features=groups[rows])
    np.testing.assert_allclose(batched.components_, reference.components_, atol=1e-7)


def test_strata_give_equalised_odds(made):
    X, groups = made
    y = pd.Series(np.where(X[:, 8] > 0, "high", "low"), name="income")
    fair = FairPCA(2, cov_tol=0.4).fit(X, sensitive_features=groups["sex"], control_features=y)
    U = fair.transform(X)
    assert fair.contrasts_["stratum"] == ["income=high", "income=low"]
    for stratum in ("high", "low"):
        inside = (y == stratum).to_numpy()
        mean, cov = gaps(U[inside], (groups["sex"] == "f").to_numpy()[inside])
        assert mean <= 1e-10
        assert cov <= 0.4 * (1 + 1e-6)


def test_numeric_attribute_is_uncorrelated_with_first_and_second_moments(made):
    X, _ = made
    rng = np.random.default_rng(1)
    age = 40 + 10 * (X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=len(X)))
    fair = FairPCA(2, cov_tol=0.0).fit(X, sensitive_features=pd.Series(age, name="age"))
    U = fair.transform(X)
    z = (age - age.mean()) / age.std()
    np.testing.assert_allclose(z @ U / len(U), 0, atol=1e-10)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert abs(np.mean(z * U[:, i] * U[:, j])) < 1e-7
    integers = FairPCA(2, numeric=["age"])
    integers.fit(X, sensitive_features=pd.DataFrame({"age": age.astype(int)}))
    assert integers.contrasts_["positive"] == ["numeric"]


def test_small_cells_are_named_once(made):
    X, groups = made
    groups = groups.assign(race=np.where(np.arange(len(groups)) == 7, "d", groups["race"]))
    with pytest.warns(SmallGroupWarning) as caught:
        fair = FairPCA(2, joint=True, min_group_size=2).fit(X, sensitive_features=groups)
    assert len(caught) == 1
    assert "d" in str(caught[0].message)
    statuses = dict(zip(fair.contrasts_["positive"], fair.contrasts_["status"], strict=True))
    assert statuses["d"].startswith("mean only")


def test_constant_attribute_is_refused(made):
    X, groups = made
    with pytest.raises(GroupsError, match="'colour' has a single group"):
        FairPCA(2).fit(X, sensitive_features=groups.assign(colour="red"))


def test_pairwise_fairness_hides_an_intersection_that_joint_removes():
    rng = np.random.default_rng(3)
    n = 4000
    a, b = rng.integers(0, 2, (2, n))
    X = rng.normal(size=(n, 6))
    # Opposite shifts in opposite corners: every marginal mean is the same, the cells are not.
    X[:, 0] += 3.0 * np.where(a == b, 1.0, -1.0)
    X = X - X.mean(axis=0)
    groups = pd.DataFrame({"a": a, "b": b})
    cell = (a == 1) & (b == 1)
    pairwise = FairPCA(2, cov_weight=0.0).fit(X, sensitive_features=groups)
    joint = FairPCA(2, cov_weight=0.0, joint=True, min_group_size=2).fit(
        X, sensitive_features=groups
    )
    assert pairwise.mean_gap_ <= 1e-10
    assert gaps(pairwise.transform(X), cell)[0] > 1.0
    assert gaps(joint.transform(X), cell)[0] <= 1e-10


@pytest.fixture(scope="module")
def adult():
    data_folder()
    dataset = fetch_adult()
    features = dataset.data.drop(columns=["fnlwgt"])
    return standardize(features), dataset.sensitive_features[["sex", "race"]]


def assert_all_cells_equal(U, X, groups):
    cells = groups.groupby(list(groups), observed=True).ngroup().to_numpy()
    means = np.array([U[cells == cell].mean(axis=0) for cell in np.unique(cells)])
    before = np.array([X[cells == cell].mean(axis=0) for cell in np.unique(cells)])
    spread = np.linalg.norm(before.max(axis=0) - before.min(axis=0))
    assert np.abs(means - means[0]).max() <= 1e-10 * spread
    return len(means)


def test_adult_means_are_equal_in_all_ten_cells(adult):
    X, groups = adult
    fair = FairPCA(2, joint=True, min_group_size=2, cov_weight=0.0).fit(
        X, sensitive_features=groups
    )
    assert assert_all_cells_equal(fair.transform(X), X, groups) == 10


@pytest.mark.parametrize("joint", [False, True])
def test_adult_covariances_meet_the_tolerance_for_every_contrast(adult, joint):
    X, groups = adult
    tol = 0.1
    fair = FairPCA(2, joint=joint, min_group_size=2, cov_tol=tol).fit(X, sensitive_features=groups)
    U = fair.transform(X)
    cells = [groups[name] == level for name in groups for level in groups[name].unique()]
    if joint:
        pairs = itertools.product(groups["sex"].unique(), groups["race"].unique())
        cells += [(groups["sex"] == s) & (groups["race"] == r) for s, r in pairs]
    for cell in cells:
        assert gaps(U, cell.to_numpy())[1] <= tol * (1 + 1e-6)
    assert fair.certificate_.objective <= fair.certificate_.bound


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
def test_compas_means_are_equal_in_every_cell():
    data_folder()
    dataset = fetch_compas()
    # 34 cells have up to 33 mean directions: the charges, one column each, leave room for them.
    charge = dataset.frame["c_charge_desc"].fillna("unknown")
    common = charge.where(charge.isin(charge.value_counts().index[:60]), "rare")
    counts = [name for name in dataset.data if name.endswith("_count")]
    X = standardize(dataset.data[[*counts, "c_charge_degree"]].assign(charge=common))
    groups = dataset.sensitive_features[["race", "sex", "age_cat"]]
    fair = FairPCA(2, joint=True, min_group_size=2, cov_weight=0.0).fit(
        X, sensitive_features=groups
    )
    assert assert_all_cells_equal(fair.transform(X), X, groups) > 30
