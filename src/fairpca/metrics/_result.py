"""What `delta_fairness` returns, and the word for the headline of an audit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from fairpca._present import html_table, label, p_value, percent, points
from fairpca.linalg import Array
from fairpca.metrics._inference import HeldOut
from fairpca.metrics._rules import Classifier, in_words
from fairpca.rows import Level

_FAMILY_NAMES = {
    "linear": "half-spaces",
    "rbf": "Gaussian-kernel surfaces",
    "cdf": "orthants (multivariate Kolmogorov–Smirnov)",
}
# In-sample statistics; no adversary has such a name.
_STATISTICS = {"linear": "half-space", "rbf": "Gaussian-kernel", "cdf": "orthant"}
_METHODS = {"svm": "by SVM", "search": "by search", "exact": "exact", "sample": "at rows"}


def statistic_name(family: str, method: str) -> str:
    """Return the name of an in-sample statistic."""
    return f"{_STATISTICS[family]} statistic, {_METHODS[method]}"


@dataclass(frozen=True, eq=False)
class NullSummary:
    """Permutation null of a value.

    Parameters
    ----------
    value : float
        The value that is compared: of all rows, or of the sample of them that was permuted.
    mean : float
        Mean of the values under permuted groups: what the statistic is by chance.
    quantile : float
        Their 95 % quantile.
    p_value : float
        Share of permutations, the observed grouping counted in, that reach the value.
    n_rows : int
        Rows that were permuted. Of many a sample is, where a permutation is costly.
    n_permutations : int
        Number of permutations.

    See Also
    --------
    DeltaResult : Where it is found.

    Examples
    --------
    >>> from fairpca.metrics import delta_fairness
    >>> U, groups = [[0.0], [1.0], [0.0], [2.0], [0.0], [1.5]], list("ababab")
    >>> delta_fairness(U, groups, n_permutations=19).null.n_permutations
    19
    """

    value: float
    mean: float
    quantile: float
    p_value: float
    n_rows: int
    n_permutations: int

    @classmethod
    def of(cls, value: float, null: Array, n_rows: int) -> NullSummary:
        """Summarise null values; a tie counts against the observed value."""
        reached = int(np.count_nonzero(null >= value - 1e-12))
        p_value = (1 + reached) / (1 + len(null))
        quantile = float(np.quantile(null, 0.95, method="higher"))
        return cls(value, float(null.mean()), quantile, p_value, n_rows, len(null))


@dataclass(frozen=True, eq=False)
class DeltaPair:
    """Δ of one pair of groups in one stratum.

    Parameters
    ----------
    attribute : str
        Name of the protected attribute.
    groups : tuple of two levels
        The two groups.
    stratum : dict
        Control features and their values; empty without control features.
    n_rows : tuple of two int
        Rows of the two groups.
    value : float
        Δ̂ of the pair.
    classifier : object or None
        The classifier that attains it: ``predict(U)`` flags rows, ``score(U)`` is what its
        threshold cuts. None where every classifier is constant.
    rates : dict
        Share of each group that the classifier flags.
    null : NullSummary or None
        Permutation null of this pair.
    held_out : HeldOut or None
        Difference of rates on held-out rows, with its interval.
    note : str
        What limits the value, where something does.
    small : bool
        Whether a group is too small for the pair to be the largest one of a result.

    See Also
    --------
    DeltaResult : The largest of all pairs.

    Examples
    --------
    >>> from fairpca.metrics import delta_fairness
    >>> [pair] = delta_fairness([[0.0], [1.0], [0.0], [2.0]], list("abab")).pairs
    >>> pair.groups, pair.value
    (('a', 'b'), 1.0)
    """

    attribute: str
    groups: tuple[Level, Level]
    stratum: dict[str, Level]
    n_rows: tuple[int, int]
    value: float
    classifier: Classifier | None
    rates: dict[Level, float]
    null: NullSummary | None = None
    held_out: HeldOut | None = None
    note: str = ""
    small: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a table or for JSON."""
        return {
            "attribute": self.attribute,
            "groups": list(self.groups),
            "stratum": dict(self.stratum),
            "n_rows": list(self.n_rows),
            "value": self.value,
            "rates": [self.rates.get(group) for group in self.groups],
            **_null_dict(self.null),
            "held_out": None if self.held_out is None else asdict(self.held_out),
            "note": self.note,
            "small": self.small,
        }

    def label(self) -> str:
        """Return a short name of the pair."""
        return label(self.attribute, self.groups[1], self.groups[0], self.stratum)


@dataclass(frozen=True, eq=False, repr=False)
class DeltaResult:
    """Δ-fairness of a representation; ``float()`` gives the value.

    `worst` is the pair of the largest value, with its classifier and rates; `pairs` has them all.

    Parameters
    ----------
    family, method : str
        How the value was found.
    pairs : tuple of DeltaPair
        Every pair of groups of every attribute in every stratum.
    null : NullSummary or None
        Permutation null of the largest value over all pairs.
    null_values : ndarray or None
        The values under permutation that it summarises.
    n_rows, n_components : int
        Rows and components that were measured.
    supremum : bool
        Whether the value is known to be the largest over the family, on rows of equal weight;
        `delta_bound` holds for such values only.
    compare : str
        Which groups were compared.

    See Also
    --------
    fairpca.metrics.delta_fairness : What makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import delta_fairness
    >>> z = np.repeat(["a", "b"], 50)
    >>> result = delta_fairness(np.arange(100.0), z)
    >>> float(result), result.worst.rates
    (1.0, {'a': 0.0, 'b': 1.0})
    >>> result
    Δ = 100.0 points, linear (half-spaces), method exact
      sensitive_feature: b vs a (50 and 50 rows)
      flags a 0.0 %, b 100.0 %, where direction · u > 49.5
    """

    family: str
    method: str
    pairs: tuple[DeltaPair, ...]
    null: NullSummary | None = None
    null_values: Array | None = None
    n_rows: int = 0
    n_components: int = 0
    supremum: bool = False
    compare: str = ""

    @property
    def worst(self) -> DeltaPair:
        """The pair with the largest value."""
        return max(self.headline, key=lambda pair: pair.value)

    @property
    def headline(self) -> tuple[DeltaPair, ...]:
        """The pairs that the largest is taken of: none of a small group, unless all are."""
        return tuple(pair for pair in self.pairs if not pair.small) or self.pairs

    @property
    def value(self) -> float:
        """Largest Δ̂ over all pairs."""
        return self.worst.value

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a table or for JSON."""
        worst, null = self.worst, self.null
        direction = getattr(worst.classifier, "direction", None)
        return {
            **worst.to_dict(),
            **_null_dict(null),
            "family": self.family,
            "method": self.method,
            "supremum": self.supremum,
            "compare": self.compare,
            "measured_rows": self.n_rows,
            "permuted_rows": None if null is None else null.n_rows,
            "n_permutations": 0 if null is None else null.n_permutations,
            "direction": None if direction is None else direction.tolist(),
            "threshold": getattr(worst.classifier, "threshold", None),
            "classifier": None if worst.classifier is None else type(worst.classifier).__name__,
            "pairs": [pair.to_dict() for pair in self.pairs],
        }

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        worst = self.worst
        lines = [
            f"Δ = {points(self.value)} points, {self.family} ({_FAMILY_NAMES[self.family]}), "
            f"method {self.method}",
            f"  {worst.label()} ({worst.n_rows[1]} and {worst.n_rows[0]} rows)",
        ]
        if worst.classifier is not None:
            shares = ", ".join(f"{group} {percent(rate)}" for group, rate in worst.rates.items())
            lines.append(f"  flags {shares}, {in_words(worst.classifier)}")
        if self.null is not None:
            lines.append(
                f"  permuted groups: mean {points(self.null.mean)}, 95 % quantile "
                f"{points(self.null.quantile)}, p = {p_value(self.null.p_value)}"
            )
            if self.null.n_rows < self.n_rows:
                lines.append(
                    f"  of {self.null.n_rows} rows, which have Δ = {points(self.null.value)}"
                )
        if worst.held_out is not None:
            lines.append(f"  on held-out rows: {worst.held_out.text()}")
        if worst.note:
            lines.append(f"  note: {worst.note}")
        if len(self.pairs) > 1:
            lines.append(f"  largest of {len(self.pairs)} pairs:")
            for row in sorted(self.pairs, key=lambda row: -row.value)[:10]:
                lines.append(f"    {points(row.value)}  {row.label()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (pair.label(), " / ".join(map(str, pair.n_rows)), points(pair.value),
             *_null_cells(pair.null),
             None if pair.held_out is None else pair.held_out.text())
            for pair in sorted(self.pairs, key=lambda pair: -pair.value)[:10]
        ]  # fmt: skip
        family = f"{self.family} ({_FAMILY_NAMES[self.family]})"
        title = f"Δ = {points(self.value)} points, {family}, {self.method}"
        head = (
            "pair",
            "rows",
            "Δ",
            "Δ permuted",
            "null mean",
            "null 95 %",
            "p",
            "on held-out rows",
        )
        more = len(self.pairs) - len(rows)
        return html_table(rows, head=head, title=title, note=f"{more} more pairs" if more else "")


def _null_dict(null: NullSummary | None) -> dict[str, Any]:
    names = {"null_value": "value", "null_mean": "mean", "null_quantile": "quantile"}
    names |= {"p_value": "p_value"}
    return {key: None if null is None else getattr(null, name) for key, name in names.items()}


def _null_cells(null: NullSummary | None) -> tuple[Any, ...]:
    """Return the value that is compared, mean, quantile and p-value of a null, for a table."""
    if null is None:
        return (None,) * 4
    return (*map(points, (null.value, null.mean, null.quantile)), p_value(null.p_value))


# A convention, and pages say so: limits of the words, as shares.
_NEGLIGIBLE = 0.1  # upper limit below which nothing but chance is shown
_SPREAD = 0.3  # an interval from zero to this says nothing
_LITTLE, _SOME = (0.1, 0.2), (0.3, 0.4)  # estimate and upper limit below which a word is used


def _rules() -> dict[str, tuple[str, str]]:
    """Return the word of each level and when it is said; the first that applies is said."""
    least, spread, *limits = (f"{100 * x:g}" for x in (_NEGLIGIBLE, _SPREAD, *_LITTLE, *_SOME))
    below = "the estimate is below {} points and the upper limit below {}"
    above = "the estimate is at least {} points or the upper limit at least {}"
    reaches = "the lower limit is 0 or below and the upper limit"
    return {
        "unknown": ("not enough was measured", f"{reaches} {spread} points or above"),
        "chance": ("no better than chance shown", f"{reaches} below {least} points"),
        "unclear": ("unclear", f"{reaches} {least} points or above"),
        "little": ("little", below.format(*limits[:2])),
        "some": ("some", below.format(*limits[2:])),
        "much": ("much", above.format(*limits[2:])),
    }


def verdict_legend() -> str:
    """Return the rule of `verdict` in words, for pages."""
    rules = list(_rules().values())
    unmeasured = "an adversary did not run, when all groups are too small to say, or when "
    said = [f'"{rules[0][0]}" when {unmeasured}{rules[0][1]}']
    said += [f'"{word}" when {when}' for word, when in rules[1:]]
    return f"We say the first of these that applies: {'; '.join(said)}."


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
    from 0 or below to 30 points or above. Where it reaches down to 0 otherwise, we say "no better
    than chance shown" when its upper limit is below 10 points, and else "unclear". Where it does
    not we say "little" when the estimate is below 10 points and the upper limit below 20, "some"
    when the estimate is below 30 and the upper limit below 40, and "much" otherwise.

    See Also
    --------
    AuditReport : Where it is found.

    Examples
    --------
    >>> from fairpca.metrics import verdict
    >>> verdict(0.15, 0.09, 0.21).word, verdict(0.05, -0.1, 0.2).word
    ('some', 'unclear')
    """
    rules = _rules()
    if estimate is None:
        why = "nothing was measured on held-out rows"
    elif missing:
        why = f"the panel of adversaries did not run for {missing} comparisons"
    elif small:
        why = "all groups are too small to say"
    else:
        level = _level(estimate, low, high)
        word, when = rules[level]
        return Verdict(word, level, when)
    return Verdict(rules["unknown"][0], "unknown", why)


def _level(estimate: float, low: float, high: float) -> str:
    if low <= 0.0:
        if high >= _SPREAD:
            return "unknown"
        return "chance" if high < _NEGLIGIBLE else "unclear"
    for level, (below, limit) in (("little", _LITTLE), ("some", _SOME)):
        if estimate < below and high < limit:
            return level
    return "much"
