"""Every branch of the verdict, and the rule that pages print."""

import pytest

from fairpca.metrics import verdict


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


def test_the_reason_names_the_limits():
    assert verdict(0.05, 0.01, 0.09).reason == (
        "the estimate is below 10 points and the upper limit below 20"
    )
    assert "at least 40" in verdict(0.25, 0.1, 0.4).reason
    assert verdict(0.0, -0.1, 0.05).word == "no better than chance shown"
