"""Invariances of the metrics, on data that Hypothesis invents."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import examples

from fairpca.metrics import cov_gap, delta_fairness, gaussian_bound, mean_gap, mmd2

FAST = settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
WAYS = [
    {"method": "svm"},
    {"method": "search"},
    {"method": "exact"},
    {"family": "cdf", "method": "sample"},
    {"family": "cdf", "method": "search"},
    {"family": "cdf", "method": "exact"},
    {"family": "rbf", "C": 1.0, "gamma": 0.5},
]


def name_of(way):
    return "-".join(str(value) for value in way.values())


@st.composite
def grouped_points(draw, d=2):
    """Points on a small grid, so that ties are common, with two groups of two rows or more."""
    n = draw(st.integers(6, 24))
    U = draw(hnp.arrays(float, (n, d), elements=st.integers(-4, 4).map(float)))
    z = draw(hnp.arrays(bool, n))
    assume(2 <= z.sum() <= n - 2)
    return U, z


@pytest.mark.parametrize("way", WAYS, ids=name_of)
@FAST
@given(grouped_points(), st.randoms(use_true_random=False))
def test_value_is_a_share_and_does_not_depend_on_order_or_names(way, data, random):
    U, z = data
    result = delta_fairness(U, z, **way)
    assert 0.0 <= result.value <= 1.0
    if result.worst.classifier is not None:
        rates = list(result.worst.rates.values())
        assert rates[1] - rates[0] == pytest.approx(result.value, abs=1e-12)
    named = delta_fairness(U, np.where(z, "yes", "no"), **way)
    assert named.value == result.value
    order = list(range(len(U)))
    random.shuffle(order)
    if way.get("method") in ("exact", "sample"):  # an ascent may meet ties in another order
        shuffled = delta_fairness(U[order], z[order], **way).value
        assert shuffled == pytest.approx(result.value, abs=1e-12)


@pytest.mark.parametrize("way", [w for w in WAYS if w.get("method") != "search"], ids=name_of)
@FAST
@given(grouped_points())
def test_swapping_the_groups_changes_nothing(way, data):
    U, z = data
    one, other = (delta_fairness(U, labels, **way).value for labels in (z, ~z))
    assert one == pytest.approx(other, abs=1e-12 if way.get("family") != "rbf" else 0.1)


@FAST
@given(grouped_points(), st.integers(0, 10_000))
def test_half_planes_do_not_depend_on_coordinates(data, seed):
    U, z = data
    rng = np.random.default_rng(seed)
    # Whole numbers keep collinear points collinear.
    A = rng.integers(-3, 4, size=(2, 2)).astype(float)
    assume(abs(np.linalg.det(A)) > 0.5)
    shift = rng.integers(-5, 6, size=2)
    expected = delta_fairness(U, z, method="exact").value
    assert delta_fairness(U @ A + shift, z, method="exact").value == expected


@FAST
@given(grouped_points(), st.integers(0, 10_000))
def test_the_svm_does_not_depend_on_coordinates(data, seed):
    U, z = data
    rng = np.random.default_rng(seed)
    U = U + rng.normal(size=U.shape)  # no ties, which rounding would break either way
    A = rng.normal(size=(2, 2))
    assume(np.linalg.cond(A) < 100)
    expected = delta_fairness(U, z).value
    assert delta_fairness(U @ A + 3.0, z).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("method", ["sample", "search", "exact"])
@FAST
@given(grouped_points(d=3))
def test_orthants_see_ranks_only(method, data):
    U, z = data
    stretched = np.exp(U / 2) * [1.0, 10.0, 0.1]
    one, other = (delta_fairness(V, z, family="cdf", method=method).value for V in (U, stretched))
    assert one == other


@FAST
@given(grouped_points(d=3))
def test_methods_are_ordered(data):
    U, z = data
    plane = U[:, :2]
    svm, search, exact = (
        delta_fairness(plane, z, method=m).value for m in ("svm", "search", "exact")
    )
    assert svm <= search + 1e-15
    assert search <= exact + 1e-12
    sample, climbed, grid = (
        delta_fairness(U, z, family="cdf", method=m).value for m in ("sample", "search", "exact")
    )
    assert sample <= climbed <= grid
    every = delta_fairness(U, z, family="cdf", method="exact", orthants="all").value
    assert grid <= every


@FAST
@given(grouped_points())
def test_a_component_more_never_lowers_the_supremum(data):
    U, z = data
    line = delta_fairness(U[:, 0], z).value
    assert delta_fairness(U, z, method="exact").value >= line - 1e-15
    assert delta_fairness(U, z, family="cdf", method="exact").value >= line - 1e-15


@FAST
@given(grouped_points(), st.integers(2, 4))
def test_repeating_all_rows_changes_nothing(data, times):
    U, z = data
    for way in ({"method": "exact"}, {"family": "cdf", "method": "exact"}, {"family": "cdf"}):
        repeated = delta_fairness(np.tile(U, (times, 1)), np.tile(z, times), **way).value
        assert repeated == pytest.approx(delta_fairness(U, z, **way).value, abs=1e-15)


@FAST
@given(grouped_points(), st.integers(0, 10_000))
def test_distances_do_not_depend_on_rotation_and_bounds_not_on_coordinates(data, seed):
    U, z = data
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    for measure in (mean_gap, cov_gap, mmd2):
        turned = measure(U @ rotation + 1.0, z)
        assert turned == pytest.approx(measure(U, z), abs=1e-9)
    noisy = U + rng.normal(size=U.shape)
    bound = gaussian_bound(noisy, z)
    A = rotation * [2.0, 0.5]
    if np.isfinite(bound):
        assert gaussian_bound(noisy @ A, z) == pytest.approx(bound, rel=1e-5)


@FAST
@given(grouped_points(), st.sampled_from([{}, {"family": "cdf"}, {"method": "exact"}]))
def test_p_values_are_in_range_and_permutations_are_shared(data, way):
    U, z = data
    result = delta_fairness(U, z, n_permutations=9, **way)
    assert 0.1 <= result.null.p_value <= 1.0
    assert (result.null_values >= 0).all()
    assert (result.null_values <= 1).all()
    twins = delta_fairness(U, np.column_stack([z, z]), n_permutations=9, **way)
    np.testing.assert_allclose(twins.null_values, result.null_values, atol=1e-12)
