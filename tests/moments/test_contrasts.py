"""Contrasts against a brute-force computation from the rows."""

import itertools

import numpy as np
import pandas as pd
import pytest

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments import GroupMoments


class Rows:
    """Rows, weights and the moments of any selection of them, the slow way."""

    def __init__(self, seed=5, n=240, p=4):
        rng = np.random.default_rng(seed)
        self.sex = np.where(rng.random(n) < 0.7, "m", "f")
        # The share of each race depends on sex, and so do all means and spreads.
        shares = np.where((self.sex == "m")[:, None], [0.6, 0.3, 0.1], [0.2, 0.3, 0.5])
        self.race = np.array(["x", "y", "z"])[
            (rng.random(n)[:, None] > shares.cumsum(axis=1)).sum(axis=1).clip(max=2)
        ]
        self.income = np.where(rng.random(n) < 0.4, "high", "low")
        self.age = rng.normal(40, 12, n)
        shift = 2.0 * (self.sex == "f") + 3.0 * (self.race == "z") + 1.0 * (self.income == "low")
        spread = 1.0 + 0.5 * (self.sex == "m") + 0.7 * (self.race == "y")
        mixing = rng.normal(size=(p, p))
        noise = rng.normal(size=(n, p)) @ mixing * spread[:, None]
        self.X = (
            noise + np.outer(shift, np.arange(1, p + 1)) + 0.02 * np.outer(self.age, np.ones(p))
        )
        self.X += (self.age > 45)[:, None] * rng.normal(size=(n, p))
        self.weights = rng.uniform(0.2, 3.0, n)
        self.frame = pd.DataFrame({"sex": self.sex, "race": self.race})

    def gap(self, plus, minus, weights=None):
        """Mean and covariance of the rows of one mask minus those of another."""
        sides = []
        for rows in (plus, minus):
            w = np.ones(rows.sum()) if weights is None else weights[rows]
            mean = np.average(self.X[rows], axis=0, weights=w)
            sides.append((mean, np.cov(self.X[rows].T, aweights=w, bias=True)))
        return sides[0][0] - sides[1][0], sides[0][1] - sides[1][1]


@pytest.fixture(scope="module")
def rows():
    return Rows()


def check(contrast, expected, sizes):
    np.testing.assert_allclose(contrast.mean_gap, expected[0], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(contrast.cov_gap, expected[1], rtol=1e-9, atol=1e-10)
    assert (contrast.n_positive, contrast.n_negative) == sizes
    assert contrast.status == "compared"


@pytest.mark.parametrize("compare", ["one-vs-rest", "pairs"])
@pytest.mark.parametrize("weighted", [False, True])
def test_two_groups_are_one_contrast_second_minus_first(rows, compare, weighted):
    weights = rows.weights if weighted else None
    moments = GroupMoments.from_arrays(rows.X, rows.sex, sample_weight=weights)
    (contrast,) = moments.contrasts(compare)
    male = rows.sex == "m"
    check(contrast, rows.gap(male, ~male, weights), (male.sum(), (~male).sum()))
    assert contrast.label == "sensitive_feature: m vs f"
    assert contrast.stratum is None


@pytest.mark.parametrize(
    "labels",
    [
        lambda male: male.astype(int),
        lambda male: np.where(male, 1.0, -1.0),
        lambda male: male,
        lambda male: np.where(male, "yes", "no"),
        lambda male: pd.Categorical(np.where(male, "b", "a"), categories=["z", "b", "a"]),
    ],
)
def test_the_spelling_of_two_groups_does_not_matter(rows, labels):
    male = rows.sex == "m"
    (contrast,) = GroupMoments.from_arrays(rows.X, labels(male)).contrasts()
    check(contrast, rows.gap(male, ~male), (male.sum(), (~male).sum()))


def test_one_vs_rest_of_three_groups(rows):
    contrasts = GroupMoments.from_arrays(rows.X, rows.race).contrasts("one-vs-rest")
    assert [(c.positive, c.negative) for c in contrasts] == [
        ("x", "rest"),
        ("y", "rest"),
        ("z", "rest"),
    ]
    for contrast in contrasts:
        side = rows.race == contrast.positive
        check(contrast, rows.gap(side, ~side), (side.sum(), (~side).sum()))


def test_pairs_of_three_groups(rows):
    contrasts = GroupMoments.from_arrays(rows.X, rows.race).contrasts("pairs")
    assert [(c.positive, c.negative) for c in contrasts] == [("y", "x"), ("z", "x"), ("z", "y")]
    for contrast in contrasts:
        plus, minus = rows.race == contrast.positive, rows.race == contrast.negative
        check(contrast, rows.gap(plus, minus), (plus.sum(), minus.sum()))


def test_every_group_against_a_reference(rows):
    moments = GroupMoments.from_arrays(rows.X, rows.race)
    contrasts = moments.contrasts("reference", reference="y")
    assert [(c.positive, c.negative) for c in contrasts] == [("x", "y"), ("z", "y")]
    for contrast in contrasts:
        plus, minus = rows.race == contrast.positive, rows.race == "y"
        check(contrast, rows.gap(plus, minus), (plus.sum(), minus.sum()))


def test_the_reference_of_two_groups_is_the_negative_side(rows):
    moments = GroupMoments.from_arrays(rows.X, rows.sex)
    (contrast,) = moments.contrasts("reference", reference="m")
    assert (contrast.positive, contrast.negative) == ("f", "m")


def test_references_of_several_attributes(rows):
    moments = GroupMoments.from_arrays(rows.X, rows.frame)
    contrasts = moments.contrasts("reference", reference={"sex": "m", "race": "z"})
    assert [(c.attribute, c.positive, c.negative) for c in contrasts] == [
        ("sex", "f", "m"),
        ("race", "x", "z"),
        ("race", "y", "z"),
    ]


@pytest.mark.parametrize("reference", [1, 1.0, True, "1", np.int64(1)])
def test_a_reference_is_found_by_value_or_by_text(rows, reference):
    moments = GroupMoments.from_arrays(rows.X, (rows.sex == "m").astype(int))
    (contrast,) = moments.contrasts("reference", reference=reference)
    assert (contrast.positive, contrast.negative) == ("0", "1")


@pytest.mark.parametrize("weighted", [False, True])
def test_two_attributes_with_different_shares_and_unequal_means(rows, weighted):
    weights = rows.weights if weighted else None
    moments = GroupMoments.from_arrays(rows.X, rows.frame, sample_weight=weights)
    contrasts = moments.contrasts()
    assert [c.attribute for c in contrasts] == ["sex", "race", "race", "race"]
    for contrast in contrasts:
        side = rows.frame[contrast.attribute].to_numpy() == contrast.positive
        check(contrast, rows.gap(side, ~side, weights), (side.sum(), (~side).sum()))


@pytest.mark.parametrize("compare", ["one-vs-rest", "pairs"])
def test_joint_adds_every_cell_against_the_rest(rows, compare):
    moments = GroupMoments.from_arrays(rows.X, rows.frame)
    alone = moments.contrasts(compare, min_group_size=2)
    joint = moments.contrasts(compare, joint=True, min_group_size=2)
    assert joint.labels[: len(alone)] == alone.labels
    cells = joint[len(alone) :]
    assert {c.attribute for c in cells} == {"sex × race"}
    assert {c.negative for c in cells} == {"rest"}
    expected = [f"{s} × {r}" for s, r in itertools.product("fm", "xyz")]
    assert [c.positive for c in cells] == expected
    for contrast in cells:
        sex, race = contrast.positive.split(" × ")
        side = (rows.sex == sex) & (rows.race == race)
        check(contrast, rows.gap(side, ~side), (side.sum(), (~side).sum()))


def test_joint_of_two_binary_attributes_holds_the_papers_intersection(rows):
    male, young = np.where(rows.sex == "m", 1, -1), np.where(rows.age < 40, 1, -1)
    contrasts = GroupMoments.from_arrays(rows.X, np.c_[male, young]).contrasts(joint=True)
    (inter,) = [c for c in contrasts if c.positive == "1 × 1"]
    both = (male == 1) & (young == 1)
    check(inter, rows.gap(both, ~both), (both.sum(), (~both).sum()))


def test_joint_changes_nothing_for_one_categorical_attribute(rows):
    frame = pd.DataFrame({"race": rows.race, "age": rows.age})
    moments = GroupMoments.from_arrays(rows.X, frame)
    assert moments.contrasts(joint=True).labels == moments.contrasts().labels


@pytest.mark.parametrize("weighted", [False, True])
def test_a_numeric_attribute_is_a_covariance_with_first_and_second_moments(rows, weighted):
    w = rows.weights if weighted else np.ones(len(rows.X))
    moments = GroupMoments.from_arrays(
        rows.X, pd.Series(rows.age, name="age"), sample_weight=rows.weights if weighted else None
    )
    (contrast,) = moments.contrasts()
    z = rows.age - np.average(rows.age, weights=w)
    x = rows.X - np.average(rows.X, axis=0, weights=w)
    deviation = np.sqrt(w @ z**2 / w.sum())
    mean_gap = (w * z) @ x / w.sum() / deviation
    cov_gap = (x * (w * z)[:, None]).T @ x / w.sum() / deviation
    check(contrast, (mean_gap, cov_gap), (len(rows.X), 0))
    assert contrast.label == "age: numeric"


def test_a_numeric_contrast_does_not_depend_on_the_unit_of_the_attribute(rows):
    one, other = (
        GroupMoments.from_arrays(rows.X, z).contrasts()[0] for z in (rows.age, rows.age * 365 + 7e5)
    )
    np.testing.assert_allclose(one.mean_gap, other.mean_gap, rtol=1e-8)
    np.testing.assert_allclose(one.cov_gap, other.cov_gap, rtol=1e-7, atol=1e-8)


def test_numbers_and_groups_together(rows):
    frame = pd.DataFrame({"age": rows.age, "sex": rows.sex})
    contrasts = GroupMoments.from_arrays(rows.X, frame).contrasts()
    alone = GroupMoments.from_arrays(rows.X, pd.Series(rows.age, name="age")).contrasts()[0]
    by_name = {c.attribute: c for c in contrasts}
    np.testing.assert_allclose(by_name["age"].cov_gap, alone.cov_gap, rtol=1e-9, atol=1e-10)
    male = rows.sex == "m"
    check(by_name["sex"], rows.gap(male, ~male), (male.sum(), (~male).sum()))


def test_equal_groups_have_no_gap(rows):
    X = np.vstack([rows.X, rows.X])
    (contrast,) = GroupMoments.from_arrays(X, np.repeat([0, 1], len(rows.X))).contrasts()
    np.testing.assert_allclose(contrast.mean_gap, 0, atol=1e-12)
    np.testing.assert_allclose(contrast.cov_gap, 0, atol=1e-11)


def test_the_set_is_a_sequence_with_arrays_and_a_table(rows):
    contrasts = GroupMoments.from_arrays(rows.X, rows.frame).contrasts()
    assert len(contrasts) == 4
    assert contrasts[-1] is list(contrasts)[3]
    np.testing.assert_array_equal(contrasts.mean_gaps, [c.mean_gap for c in contrasts])
    np.testing.assert_array_equal(contrasts.cov_gaps, [c.cov_gap for c in contrasts])
    table = contrasts.as_table()
    assert list(table) == [
        "attribute",
        "positive",
        "negative",
        "stratum",
        "n_positive",
        "n_negative",
        "status",
    ]
    assert table["positive"] == ["m", "x", "y", "z"]
    assert pd.DataFrame(table).shape == (4, 7)
    for contrast in contrasts:
        np.testing.assert_array_equal(contrast.cov_gap, contrast.cov_gap.T)


def test_projected_gaps_are_the_gaps_of_projected_rows(rows):
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 2)))[0]
    moments = GroupMoments.from_arrays(rows.X, rows.frame)
    projected = GroupMoments.from_arrays(rows.X @ basis, rows.frame).contrasts()
    gaps = moments.contrasts().projected_gaps(basis)
    np.testing.assert_allclose(gaps.mean, [np.linalg.norm(c.mean_gap) for c in projected])
    spectral = [np.abs(np.linalg.eigvalsh(c.cov_gap)).max() for c in projected]
    np.testing.assert_allclose(gaps.cov, spectral)


@pytest.mark.parametrize("basis", [np.eye(3), np.ones(4)])
def test_a_basis_of_another_shape_is_refused(rows, basis):
    contrasts = GroupMoments.from_arrays(rows.X, rows.sex).contrasts()
    with pytest.raises(InvalidInputError, match="give a matrix with 4 rows"):
        contrasts.projected_gaps(basis)


OPTION_ERRORS = {
    "compare": ({"compare": "all"}, r"compare='all' is unknown: use one of"),
    "size": ({"min_group_size": 1}, "min_group_size=1: .* at least 2"),
    "size type": ({"min_group_size": 2.5}, "min_group_size=2.5"),
    "stray reference": ({"reference": {"sex": "m"}}, "no meaning with compare='one-vs-rest'"),
    "no reference": (
        {"compare": "reference", "reference": {"sex": "m"}},
        r"needs the reference group of 'race': one of \['x', 'y', 'z'\]",
    ),
    "whose reference": ({"compare": "reference", "reference": "m"}, "a level for each of"),
    "unknown level": (
        {"compare": "reference", "reference": {"sex": "q", "race": "x"}},
        r"reference='q' is not a level of 'sex': use one of \['f', 'm'\]",
    ),
    "unknown attribute": (
        {"compare": "reference", "reference": {"sex": "m", "race": "x", "age": 1}},
        r"reference names \['age'\]",
    ),
}


@pytest.mark.parametrize("case", OPTION_ERRORS)
def test_unusable_options_are_refused(rows, case):
    options, message = OPTION_ERRORS[case]
    with pytest.raises(InvalidInputError, match=message):
        GroupMoments.from_arrays(rows.X, rows.frame).contrasts(**options)


def test_a_missing_reference_of_one_attribute_names_its_levels(rows):
    with pytest.raises(GroupsError, match=r"of 'sensitive_feature': one of \['x', 'y', 'z'\]"):
        GroupMoments.from_arrays(rows.X, rows.race).contrasts("reference")


def test_a_constant_attribute_is_refused_by_name(rows):
    frame = rows.frame.assign(planet="earth")
    with pytest.raises(GroupsError, match="'planet' has a single group: 'earth' in all 240 rows"):
        GroupMoments.from_arrays(rows.X, frame).contrasts()


@pytest.mark.parametrize("values", [[0.1], [0.1, np.nextafter(0.1, 1)]])
def test_a_constant_numeric_attribute_is_refused_by_name(rows, values):
    frame = pd.DataFrame({"age": np.resize(values, len(rows.X))})
    moments = GroupMoments.from_arrays(rows.X, frame, numeric=["age"])
    with pytest.raises(GroupsError, match=r"'age' is numeric and constant \(0\.1 in all 240 rows"):
        moments.contrasts()
