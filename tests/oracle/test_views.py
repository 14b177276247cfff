"""Tables of a notebook have the figures that the terminal and the results themselves have."""

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.metrics import audit, decision_rates, delta_fairness


def cells(view):
    """The texts of a table, row by row, with its head, and what stands below it."""
    html = view._repr_html_()
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in html.split("<tr>")[1:]]
    note = re.search(r"</table><p>(.*)</p></div>", html)
    return [[unescape(text) for text in row] for row in rows], note and unescape(note[1])


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def test_rates_of_decisions(rng):
    z = np.r_[np.repeat(["a", "b", "few"], [80, 60, 5])]
    report = decision_rates(
        rng.random(145) < np.where(z == "b", 0.3, 0.6), z, label=np.arange(145) % 2, min_group=10
    )
    (_, *rows), note = cells(report)
    lines = str(report).splitlines()[1:]
    assert (len(rows), note) == (9, None)
    for row, line in zip(rows, lines, strict=True):
        measure, group, n_rows, rate, interval, ratio, span, left_out = row
        tail = f"left out: {left_out}" if left_out else f"impact ratio {ratio} ({span})"
        assert line == f"{measure}, {group}: {rate} ({interval}) of {n_rows}, {tail}"
    assert [bool(row[-1]) for row in rows] == [False, False, True] * 3


def test_pairs_of_delta(rng):
    z, U = rng.integers(0, 6, 180), rng.normal(size=(180, 1))
    result = delta_fairness(U + z[:, None] / 4.0, z, compare="pairs", n_permutations=9)
    (_, *rows), note = cells(result)
    assert (len(rows), note) == (10, "5 more pairs")
    in_words = [line.split(maxsplit=1) for line in str(result).splitlines()[-10:]]
    assert [[row[2], row[0]] for row in rows] == in_words
    by_name = {pair.label(): pair for pair in result.pairs}
    for name, counts, value, fitted, mean, quantile, p, held_out in rows:
        pair = by_name[name]
        assert counts == " / ".join(str((z == group).sum()) for group in pair.groups)
        numbers = [
            100 * x for x in (pair.value, pair.null.value, pair.null.mean, pair.null.quantile)
        ]
        found = [float(x) for x in (value, fitted, mean, quantile)]
        np.testing.assert_allclose(found, numbers, atol=0.051)
        assert (float(p), held_out) == (pytest.approx(pair.null.p_value, abs=1e-3), "–")
    few = delta_fairness(U, z > 2, cross_fit=True, n_permutations=0)
    [_, row], note = cells(few)
    assert row[3:] == ["–"] * 4 + [few.worst.held_out.text()]
    assert note is None


def test_held_out_differences_of_an_audit(rng):
    z = np.arange(120) % 3
    U = rng.normal(size=(120, 2)) + np.outer(z == 2, [2.0, 0.0])
    report = audit(U, z, families=(), adversaries=("linear",), compare="pairs", effort="quick")
    (_, [_, adversary, pair, difference, chance]), note = cells(report)
    assert f"\n  {difference}, {adversary}, {pair}, chance {chance}\n" in str(report)
    largest = max(one.held_out.estimate for one in report.representations[0].held_out)
    assert difference.startswith(f"{100.0 * largest:.1f} points")
    assert note.count("left out by adversaries") == 3


def test_columns_and_counts_of_moments(rng):
    X, z = rng.normal(size=(70, 25)), pd.DataFrame({"g": np.arange(70) % 3, "age": rng.random(70)})
    plain = GroupMoments.from_arrays(X, z)
    (_, *rows), note = cells(plain)
    assert rows == [["g", "0", "24"], ["g", "1", "23"], ["g", "2", "23"], ["age", "–", "70"]]
    assert note is None
    names = [f"f{k}" for k in range(25)]
    for p, more in ((25, ", …"), (20, "")):
        named = GroupMoments.from_arrays(pd.DataFrame(X[:, :p], columns=names[:p]), z)
        assert cells(named)[1] == f"features: {', '.join(names[:20])}{more}"
    many = GroupMoments.from_arrays(X[:, :2], np.arange(70))
    assert len(cells(many)[0]) == 61
    assert "70 cells with fewer than 10 rows" in repr(many)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
def test_gaps_of_contrasts(rng):
    X, z = rng.normal(size=(330, 2)), np.r_[np.arange(330) % 12, [12] * 7]
    X = np.vstack([X, rng.normal(size=(7, 2)) + 3.0])
    fair = FairPCA(1, compare="pairs", mean_tol=1.0).fit(X, sensitive_features=z)
    table = fair.contrasts_
    (head, *rows), note = cells(table)
    assert head == [name.replace("_", " ") for name in table]
    assert (len(rows), len(table["status"])) == (60, 78)
    assert note == "18 more; 12 with a group of fewer than 10 rows: nearly persons"
    assert [row[4:6] for row in rows] == [
        [str(n) for n in pair]
        for pair in zip(table["n_positive"], table["n_negative"], strict=True)
    ][:60]
    written = table.without_small()
    for one, other, small in zip(
        zip(*table.values(), strict=True), zip(*written.values(), strict=True), table.small(),
        strict=True,
    ):  # fmt: skip
        assert small == (min(one[4:6]) < 10)
        assert other[:6] == one[:6]
        assert other[6:] == (("not written: fewer than 10 rows", *[None] * 4) if small else one[6:])
    assert cells(GroupMoments.from_arrays(X[:60], z[:60]).contrasts())[1] is None
