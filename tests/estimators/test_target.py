"""FairPCA with a target: predictor, certificate, what is kept, and what is said."""

import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from fairpca import FairPCA, GroupMoments, load_model
from fairpca.estimators import FairPCACV, SparseFairPCA
from fairpca.exceptions import (
    DroppedRowsWarning,
    FewRowsWarning,
    InvalidInputError,
    NotFittedYetWarning,
    TargetWarning,
)
from fairpca.linalg import complement_basis
from fairpca.moments import FoldedMoments


def people(n=500, p=7, seed=0):
    """Rows whose y lies mostly in directions of little variance."""
    random = np.random.default_rng(seed)
    z = random.integers(0, 2, n)
    X = random.normal(size=(n, p)) * np.linspace(2.0, 0.6, p) + np.outer(z, random.normal(size=p))
    y = X[:, -1] + 0.5 * X[:, 2] + random.normal(size=n)
    return X, z, y


def fair_predictor(X, y, gap):
    """The obvious way: ridge regression on rows without the gap, penalty by a loop."""
    Z = complement_basis(gap[None], 1e-12)
    x = (X - X.mean(0)) @ Z
    target = (y - y.mean()) / y.std()
    n, best = len(x), None
    for share in 10.0 ** np.arange(-4, 5):
        penalty = share * np.trace(x.T @ x / n) / x.shape[1]
        hat = x @ np.linalg.solve(x.T @ x / n + penalty * np.eye(x.shape[1]), x.T) / n
        error = np.mean((target - hat @ target) ** 2) / (1 - (1 + np.trace(hat)) / n) ** 2
        if best is None or error < best[0]:
            direction = np.linalg.solve(x.T @ x / n + penalty * np.eye(x.shape[1]), x.T @ target)
            best = error, Z @ direction / np.linalg.norm(direction)
    return best[1]


def test_the_predictor_is_ridge_regression_in_fair_directions():
    X, z, y = people()
    gap = X[z == 1].mean(0) - X[z == 0].mean(0)
    u = fair_predictor(X, y, gap)
    fair = FairPCA(2, target_weight=1.0, cov_weight=0.0).fit(X, y, sensitive_features=z)
    assert fair.target_kept_ == pytest.approx(np.sum((fair.components_ @ u) ** 2), rel=1e-9)
    # The exact solution: leading eigenvectors of S + λ₁uuᵀ among fair directions.
    Z = complement_basis(gap[None], 1e-12)
    S = Z.T @ np.cov(X.T, bias=True) @ Z
    first = np.linalg.eigvalsh(S)[-1]
    V = Z @ np.linalg.eigh(S + first * np.outer(Z.T @ u, u @ Z))[1][:, -2:]
    np.testing.assert_allclose(fair.components_.T @ fair.components_, V @ V.T, atol=1e-9)
    assert (np.diff(fair.explained_variance_) <= 0).all()
    scores = fair.transform(X)
    assert abs(np.corrcoef(scores.T)[0, 1]) < 1e-9


def random_fair_basis(F, d, random):
    N = complement_basis(F, 1e-12)
    return N @ np.linalg.qr(random.normal(size=(N.shape[1], d)))[0]


@pytest.mark.parametrize("options", [{"cov_weight": 0.0}, {"cov_weight": 2.0}, {"cov_tol": 1.0}])
@pytest.mark.parametrize("weight", [0.5, 5.0])
def test_weak_duality(options, weight):
    X, z, y = people()
    fair = FairPCA(2, target_weight=weight, **options).fit(X, y, sensitive_features=z)
    S, contrasts = np.cov(X.T, bias=True), fair.moments_.contrasts()
    V, J = fair.components_.T, fair.target_kept_
    paid = (
        weight * np.linalg.eigvalsh(N.T @ S @ N)[-1]
        if (N := complement_basis(contrasts.mean_gaps, 1e-12)) is not None
        else 0.0
    )
    u = fair_predictor(X, y, contrasts.mean_gaps[0])

    def objective(basis):
        gap = np.linalg.norm(basis.T @ contrasts.cov_gaps[0] @ basis, 2)
        if "cov_tol" in options and gap > options["cov_tol"]:
            return -np.inf
        return np.trace(basis.T @ S @ basis) - options.get("cov_weight", 0.0) * gap

    certificate, random = fair.certificate_, np.random.default_rng(1)
    assert certificate.objective == pytest.approx(objective(V), rel=1e-9)
    assert certificate.target_kept == J
    assert certificate.gap < 0.03
    for _ in range(300):
        other = random_fair_basis(contrasts.mean_gaps, 2, random)
        if random.random() < 0.5:  # near the solution
            mixed = V + 0.3 * random.random() * other
            other = np.linalg.qr(N @ (N.T @ mixed))[0]
        kept = np.sum((u @ other) ** 2)
        assert objective(other) <= certificate.bound + paid * (J - kept) + 1e-9


def test_kept_never_falls_and_approaches_one():
    X, z, y = people()
    kept = []
    for weight in (0.05, 0.2, 0.5, 1.0, 3.0, 10.0, 100.0):
        model = FairPCA(2, target_weight=weight, cov_weight=0.0)
        kept.append(model.fit(X, y, sensitive_features=z).target_kept_)
        assert kept[-1] >= 1.0 - 1.0 / weight - 1e-9
    assert (np.diff(kept) >= -1e-9).all()
    assert kept[0] < 0.5 < 0.99 < kept[-1]
    kept = [
        FairPCA(2, target_weight=w, tol=1e-6).fit(X, y, sensitive_features=z).target_kept_
        for w in (0.1, 1.0, 10.0)
    ]
    assert (np.diff(kept) >= -1e-4).all()


def test_a_large_weight_buys_no_tolerance():
    X, z, y = people()
    fair = FairPCA(2, target_weight=1e4).fit(X, y, sensitive_features=z)
    assert fair.certificate_.gap < 0.01


def test_the_predictor_obeys_mean_tol():
    X, z, y = people()
    y = y + 0.2 * z  # the group itself predicts y
    free = FairPCA(1, mean_tol=None, cov_weight=0.0, target_weight=1e4)
    gap = abs(free.fit(X, y, sensitive_features=z).mean_gap_)
    limit = gap / 3
    fair = FairPCA(1, mean_tol=limit, cov_weight=0.0, target_weight=1e4)
    fair.fit(X, y, sensitive_features=z)
    assert fair.mean_gap_ <= limit * (1 + 1e-6)
    # All of a predictor that keeps to the limit fits: else J would be far from 1.
    assert fair.target_kept_ > 0.999
    equal = clone(fair).set_params(mean_tol=0.0).fit(X, y, sensitive_features=z)
    shares = [m.target_information_["fair"] for m in (equal, fair, free)]
    assert shares[0] < shares[1] < shares[2]


def test_labels_numbers_and_several_columns():
    X, z, y = people()
    binary = FairPCA(2, target_weight=1.0).fit(X, y > 0, sensitive_features=z)
    words = FairPCA(2, target_weight=1.0).fit(X, np.where(y > 0, "b", "a"), sensitive_features=z)
    number = FairPCA(2, target_weight=1.0).fit(X, np.where(y > 0, 1.5, -0.25), sensitive_features=z)
    for other in (words, number):
        np.testing.assert_allclose(np.abs(other.components_), np.abs(binary.components_), atol=1e-8)
    several = FairPCA(3, target_weight=3.0).fit(
        X, np.column_stack([y, X[:, 4] ** 2 + X[:, 4]]), sensitive_features=z
    )
    one = FairPCA(3, target_weight=3.0).fit(X, y, sensitive_features=z)
    assert several.target_kept_ > one.target_kept_ > 0.9


def test_information_on_fitted_rows_is_that_of_least_squares():
    X, z, y = people()
    fair = FairPCA(2, target_weight=1.0).fit(X, y, sensitive_features=z)

    def r2(U):
        U = np.column_stack([np.ones(len(U)), U])
        residual = y - U @ np.linalg.lstsq(U, y, rcond=None)[0]
        return 1.0 - residual.var() / y.var()

    known = fair.target_information_
    gap = X[z == 1].mean(0) - X[z == 0].mean(0)
    assert known["all"] == pytest.approx(r2(X))
    assert known["fair"] == pytest.approx(r2(X @ complement_basis(gap[None], 1e-12)))
    assert known["components"] == pytest.approx(r2(fair.transform(X)))


def test_zero_ignores_y_and_names_are_never_features():
    pandas = pytest.importorskip("pandas")
    X, z, y = people()
    plain = FairPCA(2).fit(X, sensitive_features=z)
    ignored = FairPCA(2).fit(X, y, sensitive_features=z)
    assert (ignored.components_ == plain.components_).all()
    assert ignored.target_kept_ is None
    assert not ignored.moments_.targets
    frame = pandas.DataFrame(X, columns=list("abcdefg")).assign(sex=z, income=y)
    for weight in (0.0, 1.0):
        fair = FairPCA(2, target_weight=weight).fit(frame, "income", sensitive_features="sex")
        assert fair.feature_names_in_.tolist() == list("abcdefg")
        assert "income" in fair.other_columns_
        assert fair.transform(frame).shape == (500, 2)
    direct = FairPCA(2, target_weight=1.0).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose(fair.components_, direct.components_, atol=1e-10)


def test_standardized_missing_rows_and_batches(tmp_path):
    X, z, y = people()
    y = y.copy()
    y[::10] = np.nan
    model = FairPCA(2, target_weight=1.0, standardize=True)
    with pytest.warns(DroppedRowsWarning, match="y is missing in 50 of 500 rows"):
        whole = clone(model).fit(X * np.arange(1, 8), y, sensitive_features=z)
    scaled = (X - X.mean(0)) / X.std(0)
    with pytest.warns(DroppedRowsWarning):
        direct = FairPCA(2, target_weight=1.0).fit(scaled, y, sensitive_features=z)
    np.testing.assert_allclose(whole.components_, direct.components_, atol=1e-8)
    batches = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedRowsWarning)
        for start in range(0, 500, 125):
            some = slice(start, start + 125)
            batches.partial_fit(X[some] * np.arange(1, 8), y[some], sensitive_features=z[some])
    np.testing.assert_allclose(batches.components_, whole.components_, atol=1e-8)
    again = load_model(whole.save(tmp_path / "model"))
    assert again.target_kept_ == whole.target_kept_
    assert again.certificate_ == whole.certificate_


def test_partial_fit_waits_for_a_second_label():
    X, z, y = people()
    fair = FairPCA(2, target_weight=1.0)
    first = np.flatnonzero(y > 0)
    with pytest.warns(NotFittedYetWarning, match="y has one value only"):
        fair.partial_fit(X[first], y[first] > 0, sensitive_features=z[first])
    assert not hasattr(fair, "components_")
    rest = np.flatnonzero(y <= 0)
    fair.partial_fit(X[rest], y[rest] > 0, sensitive_features=z[rest])
    whole = FairPCA(2, target_weight=1.0).fit(X, y > 0, sensitive_features=z)
    np.testing.assert_allclose(np.abs(fair.components_), np.abs(whole.components_), atol=1e-8)


def test_warns_where_fairness_takes_what_predicts_y():
    X, z, _ = people()
    y = z + 0.1 * np.random.default_rng(1).normal(size=500)
    with pytest.warns(
        TargetWarning,
        match="at most 0 explain .* brings back. Let the means differ with mean_tol=",
    ):
        fair = FairPCA(2, target_weight=1.0).fit(X, y, sensitive_features=z)
    known = fair.target_information_
    assert known["fair"] < 0.5 * known["all"]


def test_warns_of_strata_that_are_the_target():
    X, z, y = people()
    with pytest.warns(TargetWarning, match="a bias in y is handed on"):
        FairPCA(2, target_weight=1.0).fit(
            X, y > 0, sensitive_features=z, control_features=np.where(y > 0, "yes", "no")
        )


def test_mistakes():
    X, z, y = people(60)
    with pytest.raises(
        InvalidInputError, match=r"target_weight=1 requires y .* set target_weight=0"
    ):
        FairPCA(2, target_weight=1).fit(X, sensitive_features=z)
    with pytest.raises(InvalidInputError, match="the moments hold no y"):
        FairPCA(2, target_weight=1).fit_moments(GroupMoments.from_arrays(X, z))
    with pytest.raises(InvalidInputError, match="y has one value only"):
        FairPCA(2, target_weight=1).fit(X, np.ones(60), sensitive_features=z)
    with pytest.raises(InvalidInputError, match="needs objective='total'"):
        FairPCA(2, target_weight=1, objective="worst-loss").fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="target_weight"):
        FairPCA(2, target_weight=-1).fit(X, y, sensitive_features=z)
    with pytest.raises(TypeError, match="target_weight"):
        SparseFairPCA(2, target_weight=1)


def test_cross_validation_chooses_by_the_target():
    X, z, y = people()
    chosen = FairPCACV(cov_weights=(0.0,), target_weights=(0.0, 1.0), at_most=1.0).fit(
        X, y, sensitive_features=z
    )
    table = chosen.cv_results_
    assert chosen.best_params_["target_weight"] == 1.0
    assert table["mean_test_target_r2"][1] > table["mean_test_target_r2"][0] + 0.1
    held_out = chosen.target_information_["held_out"]
    assert held_out["components"] == pytest.approx(table["mean_test_target_r2"][1])
    assert held_out["components"] <= held_out["fair"] + 0.02 <= held_out["all"] + 0.04
    folded = FoldedMoments.from_arrays(X, z, y=y)
    again = FairPCACV(cov_weights=(0.0,), target_weights=(0.0, 1.0), at_most=1.0).fit_moments(
        folded
    )
    np.testing.assert_allclose(again.components_, chosen.components_, atol=1e-8)


def test_held_out_information_is_that_of_rows():
    X, z, y = people()
    folded = FoldedMoments.from_arrays(X, z, y=y, folds=2)
    chosen = FairPCACV(cov_weights=(0.0,), target_weights=(1.0,), folds=2).fit_moments(folded)
    from fairpca.moments.folds import with_folds
    from fairpca.rows import Rows

    halves = with_folds(Rows.read(X, z), 2).strata.categorical[-1].codes
    values = []
    for fold in (0, 1):
        train, test = halves // 2 != fold, halves // 2 == fold
        model = FairPCA(2, cov_weight=0.0, target_weight=1.0)
        U = model.fit(X[train], y[train], sensitive_features=z[train]).transform(X)
        U = np.column_stack([np.ones(len(U)), U])
        B = np.linalg.lstsq(U[train], y[train], rcond=None)[0]
        values.append(1 - np.mean((y[test] - U[test] @ B) ** 2) / y[test].var())
    assert chosen.cv_results_["mean_test_target_r2"][0] == pytest.approx(np.mean(values), abs=1e-3)


def test_pipeline_and_grid_search():
    X, z, y = people()
    model = make_pipeline(FairPCA(2), LogisticRegression())
    grid = {"fairpca__target_weight": [0.0, 1.0], "fairpca__cov_weight": [0.0, 1.0]}
    search = GridSearchCV(model, grid, cv=3, scoring="roc_auc")
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        search.fit(X, y > 0, sensitive_features=z)
    assert search.best_params_["fairpca__target_weight"] == 1.0


def test_held_out_information_is_measured_when_it_is_read():
    X, z, y = people()
    model = FairPCA(2, target_weight=1.0)
    fair = clone(model).fit(X, y, sensitive_features=z)
    chosen = FairPCACV(2, cov_weights=(10.0,), mean_tols=(0.0,), estimator=model)
    model.set_params(cov_weight=10.0)
    penalised = clone(model).fit(X, y, sensitive_features=z)
    expected = chosen.fit(X, y, sensitive_features=z).target_information_["held_out"]
    penalised.set_params(cov_weight=0.0)  # the fit is measured, not what is set since
    assert "measured when first read" in repr(penalised.target_information_)
    assert penalised.target_information_["held_out"] == expected
    assert "measured" not in repr(penalised.target_information_)
    held_out = fair.target_information_["held_out"]
    assert set(held_out) == {"all", "fair", "components"}
    assert held_out["fair"] < held_out["all"] < fair.target_information_["all"]


def test_copies_and_files_hold_no_rows_and_say_so(tmp_path):
    X, z, y = people()
    fair = FairPCA(2, target_weight=1.0, cov_weight=0.0).fit(X, y, sensitive_features=z)
    stored = pickle.dumps(fair)
    assert len(stored) < X.nbytes / 4
    for other in (
        pickle.loads(stored),
        copy.deepcopy(fair),
        clone(fair).fit_moments(fair.moments_),
    ):
        with pytest.raises(KeyError, match=r"no rows to hold out.*FairPCACV"):
            other.target_information_["held_out"]
        assert other.target_information_ == fair.target_information_
    known = fair.target_information_["held_out"]
    again = pickle.loads(pickle.dumps(fair)), load_model(fair.save(tmp_path / "model"))
    assert all(other.target_information_["held_out"] == known for other in again)
    with pytest.raises(KeyError, match=r"^'share'$"):
        fair.target_information_["share"]


def test_a_model_that_is_dropped_frees_its_rows():
    X, z, y = people()
    gc.collect()
    gc.disable()  # no cycle may hold them until it runs
    try:
        fair = FairPCA(2, target_weight=1.0, cov_weight=0.0).fit(X, y, sensitive_features=z)
        rows = weakref.ref(fair.target_information_._fitted[1])
        assert rows() is not None
        del fair
        assert rows() is None
    finally:
        gc.enable()


def test_groups_in_one_fold_only_are_a_warning():
    X, z, y = people(100)
    z = np.arange(100) < 40
    X[z] = X[0]  # copies of a row share a fold
    fair = FairPCA(2, target_weight=1.0, cov_weight=0.0).fit(X, y, sensitive_features=z)
    with pytest.warns(FewRowsWarning, match="no R² of held-out rows: without the rows of fold"):
        assert fair.target_information_["held_out"] == {}


def test_all_features_explain_what_least_squares_does_where_columns_depend():
    X, z, y = people()
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X)), z + 1e-3 * X[:, 2]])
    fair = FairPCA(2, target_weight=1.0, cov_weight=0.0).fit(X, y, sensitive_features=z)
    U = np.column_stack([np.ones(len(X)), X])
    residual = y - U @ np.linalg.lstsq(U, y, rcond=None)[0]
    share = 1.0 - residual.var() / y.var()
    assert fair.target_information_["all"] == pytest.approx(share, rel=1e-9)
