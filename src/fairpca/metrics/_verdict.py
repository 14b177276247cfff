"""The verdict of an audit: one word for the largest difference on held-out rows."""

from __future__ import annotations

from typing import NamedTuple

# Estimate and upper limit below which a word is used. They are a convention, and pages say so.
_WORDS = (("little", 0.1, 0.2), ("some", 0.3, 0.4))
_CHANCE = 0.1  # upper limit below which nothing but chance is shown
_SPREAD = 0.3  # an interval from zero to this says nothing


class Verdict(NamedTuple):
    """A word, its level and the reason; levels are the keys of the page's sentences.

    "unknown" and "unclear" are grey: nothing is claimed either way.
    """

    word: str
    level: str
    reason: str


def verdict(
    estimate: float | None, low: float, high: float, *, missing: int = 0, small: bool = False
) -> Verdict:
    """Put the largest difference in selection rates into a word.

    We say "not enough was measured" when nothing was measured (`estimate` is None), when `missing`
    comparisons of the panel were not, when all groups are `small`, or when the interval reaches
    from 0 to 30 points or more. Where the interval includes 0 we say "no better than chance shown"
    when its upper limit is below 10 points, and "unclear" otherwise. Where it does not we say
    "little" when the estimate is below 10 points and the upper limit below 20, "some" when the
    estimate is below 30 and the upper limit below 40, and "much" otherwise.

    See Also
    --------
    AuditReport : Where it is found.

    Examples
    --------
    >>> from fairpca.metrics import verdict
    >>> verdict(0.15, 0.09, 0.21).word, verdict(0.05, -0.1, 0.2).word
    ('some', 'unclear')
    """
    if estimate is None:
        return _unknown("nothing was measured on held-out rows")
    if missing:
        return _unknown(f"the panel of adversaries did not run for {missing} comparisons")
    if small:
        return _unknown("all groups are small")
    if low <= 0.0 and high >= _SPREAD:
        return _unknown(f"the interval includes 0 and {100 * _SPREAD:g} points")
    if low <= 0.0:
        least = f"{100 * _CHANCE:g} points"
        if high < _CHANCE:
            reason = f"the interval includes 0 and its upper limit is below {least}"
            return Verdict("no better than chance shown", "chance", reason)
        reason = f"the interval includes 0, but its upper limit is not below {least}"
        return Verdict("unclear", "unclear", reason)
    for word, below, limit in _WORDS:
        if estimate < below and high < limit:
            reason = f"the estimate is below {100 * below:g} points and the upper limit below "
            return Verdict(word, word, reason + f"{100 * limit:g}")
    _, below, limit = _WORDS[-1]
    reason = f"the estimate is at least {100 * below:g} points or the upper limit at least "
    return Verdict("much", "much", reason + f"{100 * limit:g}")


def _unknown(reason: str) -> Verdict:
    return Verdict("not enough was measured", "unknown", reason)
