"""Displays: the data that they draw, not the pixels."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA
from support import NEEDS_SKLEARN_1_9

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, SparseFairPCA
from fairpca._present import number
from fairpca.datasets import load_diabetes_sex
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import audit, cov_gap, delta_fairness, group_loss, mean_gap
from fairpca.report import (
    BeforeAfterDisplay,
    BiplotDisplay,
    CertificateDisplay,
    ContrastsDisplay,
    DeltaDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    ScreeDisplay,
    SolveHistory,
    TradeoffDisplay,
)
from fairpca.report._delta import Bar
from fairpca.report._display import group_style


@pytest.fixture(scope="module")
def data():
    found = load_diabetes_sex()
    X = (found.data - found.data.mean(0)) / found.data.std(0)
    return pd.DataFrame(X, columns=found.feature_names), np.asarray(found.sensitive_features)


@pytest.fixture(scope="module")
def fair(data):
    X, z = data
    return FairPCA(3).fit(X, sensitive_features=z)


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def line(ax, label):
    (found,) = [line for line in ax.lines if line.get_label() == label]
    return np.column_stack(found.get_data())


def test_groups_differ_in_colour_marker_line_and_grey():
    styles = [group_style(index) for index in range(7)]
    for part in range(2):
        assert len({style[part] for style in styles}) == len(styles)
    grey = [np.dot(to_rgb(style.colour), (0.299, 0.587, 0.114)) for style in styles[:2]]
    pairs = {(style.marker, str(style.line)) for style in map(group_style, range(20))}
    assert len(pairs) == 20
    assert abs(grey[0] - grey[1]) > 0.02


def test_scores_means_and_ellipses_of_both_panels(data, fair):
    X, z = data
    display = BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=z)
    assert list(display.axes_) == ["Plain PCA", "FairPCA"]
    assert display.figure_ is display.ax_.figure
    for title, ax in display.axes_.items():
        U = display.scores[title]
        assert sum(len(points.get_offsets()) for points in ax.collections) == len(X)
        ellipses = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
        for level, ellipse in zip(("sex 1", "sex 2"), ellipses, strict=True):
            mine = U[z == level, :2]
            assert_allclose(ellipse.center, mine.mean(0))
            deviations = 2 * np.sqrt(np.linalg.eigvalsh(np.cov(mine.T, bias=True)))
            assert_allclose(sorted([ellipse.width / 2, ellipse.height / 2]), deviations)
        assert f"mean gap {number(mean_gap(U, z), 1.0)}, " in display.captions[title]
        assert display.captions[title].endswith(f"covariance gap {number(cov_gap(U, z), 1.0)}")
    assert labels(display.ax_) == ["sex 1", "sex 2"]
    plain, ours = display.axes_.values()
    assert plain.get_xlim() == ours.get_xlim()


def test_plain_scores_are_those_of_scikit_learn(data, fair):
    X, z = data
    display = BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=z)
    expected = PCA(3).fit(X).transform(X)
    assert_allclose(np.abs(display.scores["Plain PCA"]), np.abs(expected), atol=1e-8)
    given = PCA(3).fit(X)
    same = BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=z, plain=given)
    assert_allclose(same.scores["PCA"], expected)


def test_many_rows_are_sampled_and_one_component_is_a_density(data):
    X, z = data
    one = FairPCA(1).fit(X, sensitive_features=z)
    display = BeforeAfterDisplay.from_estimator(one, X, sensitive_features=z)
    assert len(display.ax_.lines) == 2
    assert not display.ax_.collections
    two = np.random.default_rng(0).normal(size=(442, 2))
    display = BeforeAfterDisplay.from_scores(two, -two, sensitive_features=z, max_points=50)
    assert sum(len(points.get_offsets()) for points in display.ax_.collections) == 50
    with pytest.raises(InvalidInputError, match="same rows"):
        BeforeAfterDisplay.from_scores(two, two[:5], sensitive_features=z)


def test_several_attributes_are_drawn_by_intersection(data, fair):
    X, z = data
    groups = pd.DataFrame({"sex": z, "age": X["age"] + 0.0})
    display = BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=groups)
    assert len(display.groups) == 4
    assert display.groups[0].startswith("sex 1 × age ≤")


def test_a_display_fits_into_axes_of_a_grid(data, fair):
    X, z = data
    figure, axes = plt.subplots(1, 2)
    display = BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=z, ax=axes[1])
    assert display.figure_ is figure
    lone = plt.figure().add_axes((0, 0, 1, 1))
    with pytest.raises(InvalidInputError, match="subplots"):
        display.plot(lone)


@pytest.mark.parametrize("make", [FairKernelPCA, DeltaFairPCA])
def test_estimators_without_moments_are_compared_with_plain_ones_of_the_rows(data, make):
    X, z = data
    options = {"rank": 20} if make is FairKernelPCA else {"penalty": 1.0}
    model = make(2, **options).fit(X, sensitive_features=z)
    display = BeforeAfterDisplay.from_estimator(model, X, sensitive_features=z)
    plain = display.scores["Plain PCA"]
    assert mean_gap(plain, z) > 10 * mean_gap(display.scores[make.__name__], z)
    scree = ScreeDisplay.from_estimator(model, X, sensitive_features=z)
    assert scree.fair.sum() <= scree.bound <= scree.plain.sum() + 1e-9


def test_loadings_are_sorted_and_named(data, fair):
    X, _ = data
    display = LoadingsDisplay.from_estimator(fair, max_features=5)
    ax = display.ax_
    drawn = line(ax, "fair")[:, 0]
    assert_allclose(np.abs(drawn), np.sort(np.abs(drawn)))
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert len(names) == 5
    for name, value in zip(names, drawn, strict=True):
        assert value == fair.components_[0, X.columns.get_loc(name)]
    assert "4 features with smaller" in ax.get_xlabel()
    plain = line(ax, "plain PCA")[:, 0]
    leading = np.abs(PCA(1).fit(X).components_[0])
    expected = [leading[X.columns.get_loc(name)] for name in names]
    assert_allclose(np.abs(plain), expected, atol=1e-8)
    assert display.plain[0] @ fair.components_[0] >= 0


def test_biplot_has_an_arrow_for_each_feature(data, fair):
    X, z = data
    display = BiplotDisplay.from_estimator(fair, X, sensitive_features=z)
    texts = {text.get_text() for text in display.ax_.texts}
    assert set(X.columns) <= texts
    assert sum(len(points.get_offsets()) for points in display.ax_.collections) == len(X)
    with pytest.raises(InvalidInputError, match="two components"):
        BiplotDisplay(np.eye(3)[:1], "abc", np.zeros((4, 1)), ("all",), np.zeros(4)).plot()


def test_sparse_loadings_are_drawn_with_their_balance(data):
    X, z = data
    sparse = SparseFairPCA(2, n_nonzero=4, standardize=True).fit(X, sensitive_features=z)
    display = LoadingsDisplay.from_estimator(sparse, component=1)
    drawn = line(display.ax_, "fair")[:, 0]
    assert_allclose(np.sort(drawn), np.sort(sparse.components_[1][sparse.components_[1] != 0]))
    bars = np.array([bar.get_width() for bar in display.ax_.patches])
    assert len(bars) == 4
    assert abs(bars.sum()) < 1e-12
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert any(text.endswith("sums to 0") for text in legend)
    arrows = BiplotDisplay.from_estimator(sparse, X).ax_.texts
    used = {name for name, v in zip(X.columns, sparse.components_.T, strict=True) if v.any()}
    assert {text.get_text() for text in arrows if text.get_text()} == used


def test_every_component_has_a_panel(data):
    X, z = data
    sparse = SparseFairPCA(3, n_nonzero=4, standardize=True).fit(X, sensitive_features=z)
    display = LoadingsDisplay.from_estimator(sparse, component=None)
    assert list(display.axes_) == ["component 1", "component 2", "component 3"]
    for component, ax in zip(sparse.components_, display.axes_.values(), strict=True):
        drawn = line(ax, "fair")[:, 0]
        assert_allclose(np.sort(drawn), np.sort(component[component != 0]))


def test_loadings_of_a_kernel_are_refused(data):
    X, z = data
    model = FairKernelPCA(2, rank=20).fit(X, sensitive_features=z)
    with pytest.raises(InvalidInputError, match="not directions of the features"):
        LoadingsDisplay.from_estimator(model)


def test_scree_has_bars_sums_and_bound(data, fair):
    display = ScreeDisplay.from_estimator(fair)
    ax = display.ax_
    heights = [bar.get_height() for bar in ax.patches]
    plain = PCA(3).fit(data[0]).explained_variance_ratio_
    assert_allclose(heights, 100 * np.concatenate([plain, fair.explained_variance_ratio_]))
    assert_allclose(line(ax, "fair, sum")[-1, 1], 100 * fair.explained_variance_ratio_.sum())
    certificate = fair.certificate_
    room = (certificate.bound - certificate.objective) / 9.0  # nine features of unit variance
    assert_allclose(display.bound, fair.explained_variance_ratio_.sum() + room)


@pytest.mark.parametrize("settings", [{"cov_weight": 3.0}, {"cov_tol": 0.05}, {"cov_weight": 0.0}])
def test_no_basis_with_such_gaps_exceeds_the_bound(data, settings):
    """The bound on the variance is that of the problem whose limits are the gaps found."""
    X, z = data
    fair = FairPCA(2, **settings).fit(X, sensitive_features=z)
    bound = ScreeDisplay.from_estimator(fair).bound
    for limit in (fair.cov_gap_, 0.9 * fair.cov_gap_):
        other = FairPCA(2, cov_tol=limit * (1 + 1e-9)).fit(X, sensitive_features=z)
        assert other.explained_variance_ratio_.sum() <= bound + 1e-7


def test_contrasts_are_a_heat_map_with_values(data):
    X, z = data
    groups = pd.DataFrame({"sex": z, "old": X["age"] > 0})
    fair = FairPCA(2, joint=True).fit(X.drop(columns="age"), sensitive_features=groups)
    display = ContrastsDisplay.from_estimator(fair)
    mean, cov = display.axes_.values()
    assert mean.get_yticklabels()[0].get_text() in display.labels
    drawn = cov.images[0].get_array()
    assert_allclose(sorted(drawn[:, 1]), sorted(fair.contrasts_["cov_gap"]))
    assert_allclose(drawn[:, 1], np.sort(drawn[:, 1])[::-1], atol=1e-12)
    assert len(mean.texts) == 2 * len(display.labels)
    assert mean.texts[1].get_text() == "0"


def test_two_hundred_contrasts_stay_readable():
    rng = np.random.default_rng(0)
    gaps = rng.uniform(size=(200, 4))
    gaps[3, 2:] = np.nan
    display = ContrastsDisplay([f"contrast {index}" for index in range(200)], gaps).plot()
    mean, cov = display.axes_.values()
    names = [text.get_text() for text in mean.get_yticklabels()]
    assert len(names) == 31
    assert names[-1] == "largest of 170 others"
    shown = [int(name.split()[1]) for name in names[:-1]]
    rest = np.delete(gaps, shown, axis=0)
    assert_allclose(cov.images[0].get_array()[-1], np.nanmax(rest[:, 2:], axis=0))
    assert display.figure_.get_size_inches()[1] < 12


def test_contrasts_that_were_not_compared_have_a_dash():
    display = ContrastsDisplay(["a"], [[1.0, 0.0, np.nan, np.nan]]).plot()
    assert [text.get_text() for text in display.axes_["covariance gap"].texts] == ["–", "–"]
    with pytest.raises(InvalidInputError, match="no contrasts"):
        ContrastsDisplay.from_table({"attribute": []})


def test_delta_beside_null_and_interval(data, fair):
    X, z = data
    U = fair.transform(X)
    result = delta_fairness(U, z, n_permutations=19, random_state=0)
    ax = DeltaDisplay.from_results(result).ax_
    (bar,) = [patch for patch in ax.patches if patch.get_width() > 0]
    assert_allclose(bar.get_width(), result.null.quantile)
    points = {(x, y) for line in ax.lines for x, y in zip(*line.get_data(), strict=True)}
    assert any(np.isclose(x, result.value) for x, _ in points)


def test_an_audit_has_a_line_for_each_adversary_next_to_plain(data, fair):
    X, z = data
    report = audit(
        fair.transform(X),
        z,
        against=np.asarray(X)[:, :2],
        families=("linear",),
        adversaries=("linear", "trees"),
        effort="quick",
    )
    display = DeltaDisplay.from_audit(report)
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert sorted(names) == ["boosted trees", "linear SVM"]
    plain = {row.comparison.adversary: row.held_out for row in report.representations[1].held_out}
    assert [bar.plain[0] for bar in display.bars] == [plain[b.label].estimate for b in display.bars]
    strongest = report.headline
    (bar,) = [b for b in display.bars if b.label == strongest.comparison.adversary]
    assert bar.held_out[0] == strongest.estimate
    with pytest.raises(InvalidInputError, match="nothing to draw"):
        DeltaDisplay([]).plot()
    assert labels(DeltaDisplay([Bar("x", 0.5)]).plot().ax_) == []


@NEEDS_SKLEARN_1_9
def test_certificate_shows_every_step(data):
    X, z = data
    history = SolveHistory()
    fair = FairPCA(2).set_callbacks(history).fit(X, sensitive_features=z)
    display = CertificateDisplay.from_history(history, fair.certificate_)
    assert_allclose(line(display.ax_, "bound, proven so far")[-1, 1], fair.certificate_.bound)
    best = line(display.ax_, "objective, best so far")[:, 1]
    assert (np.diff(best) >= 0).all()
    assert best[-1] <= fair.certificate_.objective + 1e-9
    assert "0.3 % of optimal" in labels(display.ax_)[-1]
    again = CertificateDisplay.from_estimator(FairPCA(2), X, sensitive_features=z)
    assert again.steps == history.steps
    with pytest.raises(InvalidInputError, match="solved exactly"):
        CertificateDisplay.from_estimator(FairPCA(2, cov_weight=0), X, sensitive_features=z)


def test_tradeoff_along_prices_is_measured_on_other_rows(data):
    X, z = data
    asked = []

    def spy(U, groups):
        asked.append(len(U))
        return cov_gap(U, groups)

    display = TradeoffDisplay.from_penalties(
        FairPCA(2), X, sensitive_features=z, penalties=(0.0, 1.0, 10.0), measure=spy, test_size=0.25
    )
    assert asked == [111] * 4
    drawn = line(display.ax_, "fair")
    assert_allclose(drawn, np.column_stack([display.leakage, 100 * display.variance]))
    assert (display.bound >= display.variance - 1e-12).all()
    assert_allclose(line(display.ax_, "plain PCA")[0], [display.plain[0], 100 * display.plain[1]])
    assert display.plain[1] > display.variance.max()
    assert "spy, held-out rows" in display.ax_.get_xlabel()
    with pytest.raises(InvalidInputError, match="measure"):
        TradeoffDisplay.from_penalties(FairPCA(2), X, sensitive_features=z, measure="nothing")


@pytest.mark.parametrize("measure", ["mean_gap", "linear"])
def test_tradeoff_has_other_measures(data, measure):
    X, z = data
    display = TradeoffDisplay.from_penalties(
        FairPCA(2), X, sensitive_features=z, penalties=(1.0,), measure=measure
    )
    assert display.plain[0] > display.leakage[0]


def test_tradeoff_of_a_path(data, fair):
    X, z = data
    model = DeltaFairPCA(2, max_rows=200).fit(X, sensitive_features=z)
    display = TradeoffDisplay.from_estimator(model, X, sensitive_features=z)
    assert_allclose(line(display.ax_, "fair")[:, 0], model.path_["delta"])
    assert_allclose(line(display.ax_, "chosen")[0, 0], model.delta_)
    assert_allclose(display.plain[1], PCA(2).fit(X).explained_variance_ratio_.sum())
    assert display.plain[0] > model.delta_
    assert np.isfinite(display.bound).sum() == 1
    with pytest.raises(InvalidInputError, match="from_penalties"):
        TradeoffDisplay.from_estimator(fair)


def test_coinciding_prices_are_written_as_a_range():
    display = TradeoffDisplay([0.5, 0.5, 0.1], [0.4, 0.4, 0.2], [0.0, 0.1, 3.0]).plot()
    assert [text.get_text() for text in display.ax_.texts] == ["penalty 0 to 0.1", "3"]


def test_a_display_is_drawn_again_from_its_data(fair):
    display = ScreeDisplay.from_estimator(fair)
    first = display.ax_
    assert display.plot().ax_ is not first
    _, ax = plt.subplots()
    assert display.plot(ax).ax_ is ax


@pytest.mark.parametrize("standardize", [False, True])
def test_losses_of_groups_are_those_of_the_fit(data, standardize):
    X, z = data
    options = {"objective": "worst-loss", "mean_tol": None, "cov_weight": 0}
    fair = FairPCA(2, standardize=standardize, **options).fit(3.0 * X, sensitive_features=z)
    display = GroupLossDisplay.from_estimator(fair)
    assert display.labels == ("sex 1 (235)", "sex 2 (207)")
    assert_allclose(display.losses["fair PCA"], fair.group_variance_["loss"])
    assert display.losses["plain PCA"].max() > display.losses["fair PCA"].max()
    factor = 1.0 if standardize else 9.0
    plain = group_loss(X, z, components=PCA(2).fit(X).components_)["loss"]
    assert_allclose(display.losses["plain PCA"], factor * np.array(plain), rtol=1e-6)
    assert labels(display.ax_) == ["plain PCA", "fair PCA"]
    assert len(display.ax_.patches) == 4
    del fair.moments_
    with pytest.raises(InvalidInputError, match="saved without its moments"):
        GroupLossDisplay.from_estimator(fair)
