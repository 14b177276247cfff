"""Groups known for some rows only: all rows count in the variance, labelled ones in the gaps."""

import numpy as np
import pandas as pd
import pytest
from support import run_command

from fairpca import DeltaFairPCA, FairPCA, GroupMoments, SparseFairPCA, load_model
from fairpca.exceptions import FewRowsWarning, GroupsError
from fairpca.tables import moments_from_arrow, moments_from_files

FEATURES = [f"x{i}" for i in range(8)]


def made(n, seed, share=1.0):
    """Rows of two groups, with a label for a share of them."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 8)) * np.linspace(1.5, 1.0, 8)
    X[:, :3] += np.outer(z, [1.0, 0.5, -0.5])
    frame = pd.DataFrame(X, columns=FEATURES)
    frame["sex"] = np.where(z == 1, "m", "f")
    frame.loc[rng.random(n) >= share, "sex"] = None
    return frame


def fit(frame, kind=FairPCA, **options):
    model = kind(2, missing_groups="unlabelled", **options)
    with pytest.warns(FewRowsWarning, match="groups are known for"):
        return model.fit(frame[FEATURES], sensitive_features=frame["sex"])


def test_the_variance_is_of_all_rows_and_the_gaps_of_labelled_ones():
    frame = made(800, 0, 0.4)
    known = frame[frame["sex"].notna()]
    fair = fit(frame)
    alone = GroupMoments.from_arrays(known[FEATURES], known["sex"]).contrasts()
    ours = fair.moments_.contrasts()
    assert ours.labels == ["sex: m vs f"]
    np.testing.assert_allclose(ours.mean_gaps, alone.mean_gaps, atol=1e-12)
    np.testing.assert_allclose(ours.cov_gaps, alone.cov_gaps, atol=1e-12)
    covariance = np.cov(frame[FEATURES].T, bias=True)
    np.testing.assert_allclose(fair.moments_.pooled().covariance, covariance, atol=1e-12)
    assert fair.mean_gap_ < 1e-10
    assert (fair.moments_.n_samples, fair.moments_.n_labelled) == (800, len(known))


def test_the_warning_quotes_what_labelled_rows_promise():
    frame = made(1200, 1, 0.05)
    known = int(frame["sex"].notna().sum())
    model = FairPCA(2, missing_groups="unlabelled")
    with pytest.warns(FewRowsWarning) as caught:
        model.fit(frame[FEATURES], sensitive_features=frame["sex"])
    text = next(str(entry.message) for entry in caught if "known for" in str(entry.message))
    assert f"known for {known} of 1,200 rows" in text
    assert model.expected_gaps(refits=0).text() in text
    only = frame[frame["sex"].notna()]
    few = FairPCA(2, mean_tol=None, cov_weight=0.0).fit(
        only[FEATURES], sensitive_features=only["sex"]
    )
    bound = few.expected_gaps(refits=0).features.mean_bound
    assert model.expected_gaps(refits=0).features.mean_bound > 0.3 * bound  # not of 1,200 rows


@pytest.mark.filterwarnings("ignore")
def test_more_variance_is_kept_and_the_promise_stays_true():
    new = GroupMoments.from_arrays(*(lambda f: (f[FEATURES], f["sex"]))(made(40_000, 99)))
    covariance, [gap] = new.pooled().covariance, new.contrasts().mean_gaps
    kept, kept_alone, inside = [], [], []
    for seed in range(20):
        frame = made(1200, seed, 0.05)
        known = frame[frame["sex"].notna()]
        ours = FairPCA(2, missing_groups="unlabelled", cov_weight=0.0)
        ours.fit(frame[FEATURES], sensitive_features=frame["sex"])
        alone = FairPCA(2, cov_weight=0.0).fit(known[FEATURES], sensitive_features=known["sex"])
        for model, shares in ((ours, kept), (alone, kept_alone)):
            shares.append(np.trace(model.components_ @ covariance @ model.components_.T))
        bound = ours.expected_gaps(refits=0).features.mean_bound
        inside.append(np.linalg.norm(ours.components_ @ gap) <= bound)
    assert np.mean(kept) > 1.02 * np.mean(kept_alone)
    assert np.mean(inside) >= 0.9


def test_every_input_gives_the_same(tmp_path):
    frame = made(600, 3, 0.3)
    fair = fit(frame, cov_weight=0.0)
    frame.to_csv(tmp_path / "x.csv", index=False)
    for moments in (
        moments_from_files(tmp_path / "x.csv", "sex", missing_groups="unlabelled"),
        moments_from_arrow(frame, "sex", missing_groups="unlabelled"),
    ):
        with pytest.warns(FewRowsWarning, match="known for"):
            again = FairPCA(2, cov_weight=0.0).fit_moments(moments)
        np.testing.assert_allclose(again.components_, fair.components_, atol=1e-9)
    words = ["fit", tmp_path / "x.csv", "-s", "sex", "--missing-groups", "unlabelled"]
    words += ["--no-standardize", "--cov-weight", 0, "--save", tmp_path / "m.npz"]
    result = run_command(*words)
    assert result.exit_code == 0, result.output
    assert "groups are known for" in result.stderr
    saved = load_model(tmp_path / "m.npz")
    np.testing.assert_allclose(saved.components_, fair.components_, atol=1e-9)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FewRowsWarning")
def test_two_attributes_intersections_and_objectives():
    frame = made(900, 5, 0.6)
    frame["race"] = np.random.default_rng(0).choice(["a", "b", None], 900)
    groups = frame[["sex", "race"]]
    options = {"missing_groups": "unlabelled", "cov_weight": 0.0}
    for more in (
        {"joint": True},
        {"objective": "worst-loss"},
        {"joint": True, "objective": "worst-loss"},
    ):
        fair = FairPCA(2, **options, **more).fit(frame[FEATURES], sensitive_features=groups)
        names = {*fair.contrasts_["positive"], *fair.contrasts_["negative"]}
        names |= {*(fair.group_variance_ or {"group": []})["group"]}
        assert not any("unknown" in name for name in names)
    sex = [
        n
        for n, a in zip(fair.contrasts_["n_positive"], fair.contrasts_["attribute"], strict=True)
        if a == "sex"
    ]
    assert sex == [int((frame["sex"] == "m").sum())]


def test_it_is_off_by_default_and_refused_where_rows_need_labels():
    frame = made(200, 0, 0.5)
    with pytest.raises(GroupsError, match="missing"):
        FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    with pytest.raises(ValueError, match="missing_groups"):
        DeltaFairPCA(1, missing_groups="unlabelled").fit(
            frame[FEATURES], sensitive_features=frame["sex"]
        )
    strata = np.where(np.arange(200) < 3, None, "s")
    with pytest.raises(GroupsError, match="control_features"):
        FairPCA(2, missing_groups="unlabelled").fit(
            frame[FEATURES], sensitive_features=frame["sex"], control_features=strata
        )


@pytest.mark.filterwarnings("ignore")
def test_sparse_components_know_it_too():
    fair = fit(made(500, 2, 0.5), SparseFairPCA, n_nonzero=4)
    assert fair.mean_gap_ < 1e-8
