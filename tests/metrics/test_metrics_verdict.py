"""Every branch of the verdict, and the rule that pages print."""

import re

import pytest

from fairpca.metrics import verdict
from fairpca.metrics._result import verdict_legend


@pytest.mark.parametrize(
    ("estimate", "low", "high", "level"),
    [
        (0.02, -0.03, 0.07, "chance"),
        (0.02, 0.0, 0.0999, "chance"),
        (0.02, -0.08, 0.12, "unclear"),  # zero is inside, but so are 12 points
        (0.05, 0.01, 0.09, "little"),
        (0.08, 0.01, 0.19, "little"),
        (0.08, 0.01, 0.20, "some"),  # the upper limit decides
        (0.15, 0.09, 0.21, "some"),
        (0.10, 0.05, 0.15, "some"),  # the estimate decides
        (0.15, -0.05, 0.35, "unknown"),  # from nothing to much
        (0.15, 0.0, 0.30, "unknown"),
        (0.25, 0.10, 0.40, "much"),  # the upper limit decides
        (0.30, 0.25, 0.35, "much"),  # the estimate decides
        (0.90, 0.85, 0.95, "much"),
    ],
)
def test_words_follow_estimate_and_upper_limit(estimate, low, high, level):
    assert verdict(estimate, low, high).level == level


def test_no_verdict_without_measurements():
    assert verdict(None, 0.0, 0.0).level == "unknown"
    assert verdict(0.02, -0.03, 0.05, missing=1).level == "unknown"
    assert "did not run for 3 comparisons" in verdict(0.5, 0.4, 0.6, missing=3).reason
    assert verdict(0.5, 0.4, 0.6, small=True) == (
        "not enough was measured",
        "unknown",
        "all groups are too small to say",
    )


def reads(when, estimate, low, high):
    """Apply a sentence of the legend as a reader would."""
    found = 0
    for text, number, sign in (
        (r"estimate is below ([0-9]+)", estimate, -1),
        (r"estimate is at least ([0-9]+)", estimate, 1),
        (r"upper limit (?:is )?below ([0-9]+)", high, -1),
        (r"upper limit (?:at least )?([0-9]+)", high, 1),
        (r"lower limit is ([0-9]+) or below", low, 0),
    ):
        for limit in re.findall(text, when):
            found += 1
            above = 100 * number >= float(limit) - 1e-9
            met = {-1: not above, 1: above, 0: 100 * number <= float(limit)}[sign]
            if met == (" or the" in when):  # one is enough, or one that is not met
                return met
    assert found == 2, when
    return " or the" not in when


def test_the_legend_is_the_rule():
    legend = verdict_legend()
    said = re.findall(r'"([^"]+)" when ([^;]+?)[;.]', legend)
    grid = [k / 100 for k in range(-20, 60, 2)]
    seen = set()
    for low in grid:
        for high in (x for x in grid if x >= low):
            for estimate in {low, high, round((low + high) / 2, 2)}:
                word = next(word for word, when in said if reads(when, estimate, low, high))
                seen.add(word)
                assert verdict(estimate, low, high).word == word, (estimate, low, high)
    assert seen == {word for word, _ in said}
    assert len(seen) == 6
    assert "an adversary did not run" in legend
    assert "all groups are too small to say" in legend


def test_the_reason_is_a_sentence_of_the_legend():
    for estimate, low, high in ((0, -0.1, 0.4), (0, -0.1, 0.05), (0.1, 0, 0.2), (0.2, 0.1, 0.3)):
        assert verdict(estimate, low, high).reason in verdict_legend()


def test_the_reason_names_the_limits():
    assert verdict(0.05, 0.01, 0.09).reason == (
        "the estimate is below 10 points and the upper limit below 20"
    )
    assert "at least 40" in verdict(0.25, 0.1, 0.4).reason
    assert verdict(0.0, -0.1, 0.05).word == "no better than chance shown"
