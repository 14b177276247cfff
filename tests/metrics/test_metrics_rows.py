"""Metrics on Rows: read once, refused once, and the figures of a fit under the same comparison."""

import numpy as np
import pandas as pd
import pytest

import fairpca.rows.rows as rows_module
from fairpca import FairPCA
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.metrics import (
    FAMILIES,
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
from fairpca.rows import Rows


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "race": rng.choice(["a", "b", "c"], 240, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["f", "m"], 240),
        }
    )
    X = rng.normal(size=(240, 5)) * [3, 2, 1.5, 1, 1]
    X += np.where(frame["race"] == "c", 2.0, 0.0)[:, None] * [1, 0, 1, 0, 1]
    X[frame["sex"] == "m"] *= 1.4
    return X, frame


ASKED = {
    "one-vs-rest": {},
    "pairs": {"compare": "pairs"},
    "reference": {"compare": "reference", "reference": {"race": "b", "sex": "f"}},
    "joint": {"joint": True},
    "joint pairs": {"compare": "pairs", "joint": True},
}


@pytest.mark.parametrize("how", ["plain", "strata", "weights"])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_gaps_of_scores_are_those_of_the_fit_under_the_same_compare(people, asked, how):
    X, frame = people
    rng = np.random.default_rng(1)
    more = {
        "plain": {},
        "strata": {"control_features": rng.choice(["x", "y"], 240)},
        "weights": {"sample_weight": rng.random(240) + 0.1},
    }[how]
    model = FairPCA(2, mean_tol=None, cov_weight=0.0, **asked)
    scores = model.fit(X, sensitive_features=frame, **more).transform(X)
    same = {**asked, **more}  # the same default
    assert mean_gap(scores, frame, **same) == pytest.approx(model.mean_gap_, rel=1e-10)
    assert cov_gap(scores, frame, **same) == pytest.approx(model.cov_gap_, rel=1e-10)


def test_numbers_are_compared_as_in_a_fit(people):
    X, frame = people
    frame = frame.assign(age=np.linspace(20, 70.5, 240) + X[:, 0])
    model = FairPCA(2, mean_tol=None, cov_weight=0.0).fit(X, sensitive_features=frame)
    found = mean_gap(model.transform(X), frame)
    assert found == pytest.approx(model.mean_gap_, rel=1e-10)


@pytest.mark.parametrize("measure", [mean_gap, cov_gap, mmd2, gaussian_bound, delta_fairness])
def test_every_measure_has_the_default_of_the_estimators(people, measure):
    X, frame = people
    default = FairPCA().compare
    value, same, pairs = (
        float(measure(X[:, :2], frame["race"], **how))
        for how in ({}, {"compare": default}, {"compare": "pairs"})
    )
    assert value == same
    assert value != pairs


def test_pairs_face_each_other_as_contrasts_do(people):
    X, frame = people
    rest = delta_fairness(X[:, 0], frame, compare="one-vs-rest", joint=True)
    labels = [(pair.attribute, *pair.groups) for pair in rest.pairs]
    assert labels[:4] == [
        *(("race", "rest", level) for level in "abc"),
        ("sex", "f", "m"),
    ]
    assert [label[2] for label in labels[4:]] == [f"{r} × {s}" for r in "abc" for s in "fm"]
    alone = delta_fairness(X[:, 0], frame["race"] == "c").value
    assert rest.pairs[2].value == alone
    reference = delta_fairness(X[:, 0], frame["race"], compare="reference", reference="b")
    assert [pair.groups for pair in reference.pairs] == [("b", "a"), ("b", "c")]
    with pytest.raises(InvalidInputError, match="compare='all' is unknown"):
        delta_fairness(X, frame, compare="all")


def test_an_audit_encodes_the_rows_once(people, monkeypatch):
    X, frame = people
    calls = []
    encode = rows_module.encode_groups

    def counted(*arguments, **options):
        calls.append(options.get("argument", "sensitive_features"))
        return encode(*arguments, **options)

    monkeypatch.setattr(rows_module, "encode_groups", counted)
    quick = {"families": (), "adversaries": ("linear",), "effort": "quick"}
    audit(X[:, :2], frame["sex"], control_features=frame["race"], **quick)
    assert calls == ["sensitive_features", "control_features"]


def test_every_measure_takes_rows_that_are_ready(people):
    X, frame = people
    strata, weight = frame["race"], np.linspace(0.5, 1.5, 240)
    rows = Rows.read(X[:, :2], frame["sex"], strata, weight)
    given = {"control_features": strata, "sample_weight": weight}
    for measure in (mean_gap, cov_gap, mmd2, gaussian_bound):
        assert measure(rows) == measure(X[:, :2], frame["sex"], **given)
    assert delta_fairness(rows).value == delta_fairness(X[:, :2], frame["sex"], **given).value
    report = audit(rows, families=(), adversaries=(), effort="quick")
    assert report.representations[0].mean_gap == mean_gap(rows)
    with pytest.raises(InvalidInputError, match=r"leave out \['sample_weight'\]"):
        mean_gap(rows, sample_weight=weight)
    with pytest.raises(GroupsError, match="sensitive_features is None"):
        delta_fairness(Rows(X))


BAD_WEIGHTS = {
    "negative": ([1.0, -1.0, 1.0, 1.0], "negative values"),
    "nan": ([1.0, np.nan, 1.0, 1.0], "NaN or infinite"),
    "zero": ([0.0] * 4, "zero for every row"),
    "short": ([1.0], "one weight for each row"),
    "text": (["a"] * 4, "cannot be read as numbers"),
}


@pytest.mark.parametrize(("weight", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_weights_are_checked_by_every_measure(weight, message):
    X, z = np.arange(8.0).reshape(4, 2) ** 2, [0, 0, 1, 1]
    for measure in (mean_gap, cov_gap, mmd2, gaussian_bound, delta_fairness, audit):
        with pytest.raises(InvalidInputError, match=message) as caught:
            measure(X, z, sample_weight=weight)
        assert caught.value.parameter == "sample_weight"
    with pytest.raises(InvalidInputError, match=message):
        explained_variance(X, components=[[1.0, 0.0]], sample_weight=weight)
    with pytest.raises(InvalidInputError, match=message):
        cluster_parity_std(z, z, sample_weight=weight)


@pytest.mark.parametrize("families", [("liner",), ("linear", 3), "linear"])
def test_unknown_families_are_refused(families):
    with pytest.raises(InvalidInputError, match="families must be some of") as caught:
        audit(np.arange(8.0), [0, 0, 0, 0, 1, 1, 1, 1], families=families)
    assert caught.value.parameter == "families"
    assert FAMILIES == ("linear", "rbf", "cdf")


@pytest.mark.parametrize(
    "arguments", [(0.1, np.nan, 2), (0.1, np.inf, 2), (np.nan, 10, 2), (0.1, 10, np.nan)]
)
def test_a_bound_needs_numbers(arguments):
    with pytest.raises(InvalidInputError, match="must be"):
        delta_bound(*arguments)


def test_vectors_are_one_component_and_frames_are_matrices():
    z = np.arange(20) % 2
    u = np.arange(20.0) ** 2
    expected = mean_gap(u[:, None], z)
    for same in (u, u.tolist(), pd.Series(u), pd.DataFrame({"u": u}), u.astype(np.float32)):
        assert mean_gap(same, z) == pytest.approx(expected)
    with pytest.raises(InvalidInputError, match="U cannot be read"):
        mean_gap([[1.0], [2.0, 3.0]], [0, 1])
