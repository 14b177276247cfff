"""FairPCA(objective=…): the group of largest loss by every input, with and without constraints."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments, load_model
from fairpca.exceptions import GroupsError, InvalidInputError, SmallGroupWarning

# Chance is not the subject here: a few rows will do.
pytestmark = pytest.mark.filterwarnings("ignore::fairpca.exceptions.FewRowsWarning")

OBJECTIVES = ("worst-variance", "worst-loss")
PURE = {"mean_tol": None, "cov_weight": 0}


def make_rows(n_groups=3, n=400, p=7, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, n_groups, n)
    X = rng.normal(size=(n, p)) * (0.5 + 2.0 * rng.random((n_groups, p)))[g]
    return X + rng.normal(size=(n_groups, p))[g], g


def by_hand(X, g, V):
    """Variance kept and own best of every group, from its rows."""
    found = []
    for level in np.unique(g):
        S = np.cov(X[g == level].T, bias=True)
        found.append((np.trace(V @ S @ V.T), np.linalg.eigvalsh(S)[-len(V) :].sum()))
    return np.array(found).T


@pytest.mark.parametrize("options", [PURE, {"cov_weight": 0}, {}, {"cov_tol": 1.0}])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_table_is_that_of_the_rows(objective, options):
    X, g = make_rows()
    fair = FairPCA(2, objective=objective, **options).fit(X, sensitive_features=g)
    kept, best = by_hand(X, g, fair.components_)
    table = fair.group_variance_
    np.testing.assert_allclose(table["variance"], kept)
    np.testing.assert_allclose(table["best"], best)
    np.testing.assert_allclose(table["loss"], best - kept, atol=1e-12)
    assert table["n_rows"] == np.bincount(g).tolist()
    assert table["group"] == ["0", "1", "2"]
    assert sum(table["weight"]) == pytest.approx(1.0)
    value = kept.min() if objective == "worst-variance" else -(best - kept).max()
    penalty = 0.0 if "cov_tol" in options else options.get("cov_weight", 1.0)
    certificate = fair.certificate_
    assert certificate.objective == pytest.approx(value - penalty * fair.cov_gap_)
    assert certificate.objective <= certificate.bound
    assert objective in repr(certificate)
    if options != PURE:
        assert fair.mean_gap_ < 1e-10
    if "cov_tol" in options:
        assert fair.cov_gap_ <= 1.0 + 1e-6


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_group_is_served_worse_than_by_pca(objective):
    X, g = make_rows(4, seed=3)
    fair = FairPCA(2, objective=objective, **PURE).fit(X, sensitive_features=g)
    kept, best = by_hand(X, g, fair.components_)
    plain, _ = by_hand(X, g, PCA(2).fit(X).components_)
    if objective == "worst-variance":
        assert kept.min() > plain.min()
    else:
        assert (best - kept).max() < (best - plain).max()
    assert fair.certificate_.gap < 0.02


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_input_leads_to_the_same_basis(objective):
    X, g = make_rows()
    w = np.random.default_rng(1).integers(1, 4, len(X))
    model = FairPCA(2, objective=objective, cov_weight=0)
    fair = clone(model).fit(X, sensitive_features=g, sample_weight=w)
    repeated = clone(model).fit(np.repeat(X, w, axis=0), sensitive_features=np.repeat(g, w))
    np.testing.assert_allclose(repeated.components_, fair.components_, atol=1e-6)
    moments = GroupMoments.from_arrays(X, g, sample_weight=w)
    np.testing.assert_array_equal(clone(model).fit_moments(moments).components_, fair.components_)
    batches = clone(model)
    for part in np.array_split(np.arange(len(X)), 3):
        batches.partial_fit(X[part], sensitive_features=g[part], sample_weight=w[part])
    np.testing.assert_allclose(batches.components_, fair.components_, atol=1e-6)
    da = pytest.importorskip("dask.array")
    lazy = clone(model).fit(
        da.from_array(X, chunks=(100, 7)),
        sensitive_features=da.from_array(g, chunks=100),
        sample_weight=da.from_array(w, chunks=100),
    )
    np.testing.assert_allclose(lazy.components_, fair.components_, atol=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_wide_rows_are_served_in_their_span(objective):
    rng = np.random.default_rng(0)
    X, g = rng.normal(size=(40, 300)), np.arange(40) % 3
    X[g == 1] *= rng.uniform(0.5, 2.0, 300)
    fair = FairPCA(3, objective=objective, cov_weight=0).fit(X, sensitive_features=g)
    kept, best = by_hand(X, g, fair.components_)
    np.testing.assert_allclose(fair.group_variance_["variance"], kept)
    np.testing.assert_allclose(fair.group_variance_["best"], best)
    assert fair.certificate_.gap < 0.01
    assert fair.mean_gap_ < 1e-9
    # More components than the rows have directions.
    few = FairPCA(6, objective=objective, cov_weight=0).fit(X[:6], sensitive_features=g[:6])
    np.testing.assert_allclose(few.components_ @ few.components_.T, np.eye(6), atol=1e-10)


def test_joint_groups_are_the_cells():
    X, g = make_rows()
    frame = pd.DataFrame({"race": g, "sex": np.random.default_rng(5).choice(["f", "m"], len(g))})
    fair = FairPCA(2, objective="worst-loss", joint=True, **PURE)
    table = fair.fit(X, sensitive_features=frame).group_variance_
    assert table["group"] == ["0 × f", "0 × m", "1 × f", "1 × m", "2 × f", "2 × m"]
    assert sum(table["n_rows"]) == len(X)
    levels = clone(fair).set_params(joint=False).fit(X, sensitive_features=frame).group_variance_
    assert levels["attribute"] == ["race"] * 3 + ["sex"] * 2
    strata = clone(fair).set_params(joint=False)
    strata.fit(X, sensitive_features=frame["race"], control_features=frame["sex"])
    assert strata.group_variance_["stratum"][:2] == ["sex=f", "sex=f"]
    np.testing.assert_allclose(
        sorted(strata.group_variance_["variance"]), sorted(table["variance"]), rtol=1e-4
    )


def test_small_groups_do_not_count_and_are_named():
    X, g = make_rows()
    g = g.astype(str).astype(object)
    g[0] = "lonely"
    with pytest.warns(SmallGroupWarning) as caught:
        fair = FairPCA(2, objective="worst-variance", **PURE).fit(X, sensitive_features=g)
    assert any("lonely (1)." in str(note.message) for note in caught)
    place = fair.group_variance_["group"].index("lonely")
    assert fair.group_variance_["weight"][place] is None
    assert fair.certificate_.objective > 0.0


def test_saved_pickled_and_cloned(tmp_path):
    X, g = make_rows()
    fair = FairPCA(2, objective="worst-loss", cov_weight=0).fit(X, sensitive_features=g)
    for again in (load_model(fair.save(tmp_path / "m")), pickle.loads(pickle.dumps(fair))):
        assert again.group_variance_ == fair.group_variance_
        assert again.certificate_ == fair.certificate_
        assert again.objective == "worst-loss"
    assert clone(fair).objective == "worst-loss"
    total = FairPCA(2).fit(X, sensitive_features=g)
    assert total.group_variance_ is None
    assert total.certificate_.criterion == "total"


def test_no_groups_is_plain_pca():
    X, _ = make_rows()
    fair = FairPCA(2, objective="worst-loss", missing_groups="ignore").fit(X)
    np.testing.assert_allclose(
        np.abs(fair.components_ @ PCA(2).fit(X).components_.T), np.eye(2), atol=1e-8
    )
    assert fair.group_variance_["group"] == ["all rows"]


@pytest.mark.parametrize(
    ("options", "groups", "error", "text"),
    [
        ({"solver": "paper"}, None, InvalidInputError, "solver='paper' knows objective='total'"),
        ({}, "numbers", GroupsError, "is about groups"),
        ({"min_group_size": 1000}, None, GroupsError, "no group has min_group_size=1000"),
        ({"objective": "worst"}, None, ValueError, "objective"),
    ],
)
@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
def test_what_cannot_be_asked(options, groups, error, text):
    X, g = make_rows()
    g = g if groups is None else np.random.default_rng(0).normal(size=len(g))
    with pytest.raises(error, match=text):
        FairPCA(2, **{"objective": "worst-loss", **options}).fit(X, sensitive_features=g)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bounded_means(objective):
    X, g = make_rows()
    values = []
    for mean_tol in (0.0, 0.3, 1.0, None):
        fair = FairPCA(2, objective=objective, mean_tol=mean_tol, cov_weight=0)
        fair.fit(X, sensitive_features=g)
        values.append(fair.certificate_.objective)
        assert fair.certificate_.gap < 0.01
        if mean_tol is not None:
            assert fair.mean_gap_ <= mean_tol * (1 + 1e-6) + 1e-10
    assert values == sorted(values)
