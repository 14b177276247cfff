"""Decisions by group: rates, differences and impact ratios, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca._present import html_table, interval, levels_text, number, share
from fairpca._present import label as group_label
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics.bounds import Share, check_limits, difference, ratio
from fairpca.rows import UNKNOWN_GROUP, Level, Rows, encode_groups
from fairpca.rows._checks import check_weights
from fairpca.rows._pairs import intersection, known_rows
from fairpca.rows.groups import Attribute, combine, encode_units

_Flags = NDArray[np.bool_]
MEASURES = ("selection", "above median", "true positives", "false positives")


@dataclass(frozen=True)
class GroupRate:
    """One rate of one group, and how it compares with the group of the highest rate.

    Parameters
    ----------
    measure : str
        "selection": share selected. "above median": share of scores above the median of all.
        "true positives", "false positives": share selected of those whose label is positive, or
        negative.
    attribute : str
        The protected attribute, or several joined by ×.
    group : level
        The group.
    n_rows : int
        Rows that the rate is taken over.
    n_selected : int
        How many of them are selected.
    rate : float or None
        Their weighted share, with its interval `rate_low` to `rate_high`.
    difference : float or None
        Rate minus the highest, with its interval; None where the group is left out.
    impact_ratio : float or None
        Rate over the highest, with its interval.
    left_out : str
        Why the group is not compared; empty where it is.
    stratum : str
        The stratum of `control_features` inside which groups are compared, such as "job=cook".

    See Also
    --------
    decision_rates : What makes it.

    Examples
    --------
    >>> from fairpca.metrics import GroupRate
    >>> GroupRate("selection", "sex", "f", n_rows=50, n_selected=20, rate=0.4).rate
    0.4
    """

    measure: str
    attribute: str
    group: Level
    n_rows: int
    n_selected: int
    rate: float | None = None
    rate_low: float | None = None
    rate_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    impact_ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    left_out: str = ""
    stratum: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class DecisionReport:
    """Result of `decision_rates`; ``print`` shows a table.

    Parameters
    ----------
    n_rows : int
        Rows with a decision or score.
    unknown : dict
        Rows without a known group, by attribute; they are in no group.
    confidence : float
        Probability with which each interval holds.
    rates : tuple of GroupRate
        One for each measure, attribute and group.

    See Also
    --------
    decision_rates : What makes it.
    GroupRate : One of its lines.

    Examples
    --------
    >>> from fairpca.metrics import decision_rates
    >>> report = decision_rates([1, 1, 0, 0, 1, 0], list("aaabbb"), min_group=2)
    >>> [(rate.group, round(rate.impact_ratio, 2)) for rate in report.rates]
    [('a', 1.0), ('b', 0.5)]
    """

    n_rows: int
    unknown: dict[str, int]
    confidence: float
    rates: tuple[GroupRate, ...]

    def worst(self, measure: str = "selection") -> GroupRate | None:
        """Return the group of the smallest impact ratio, None where nothing is compared."""
        rates = [r for r in self.rates if r.measure == measure and r.impact_ratio is not None]
        return min(rates, key=lambda rate: rate.impact_ratio or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "n_rows": self.n_rows,
            "unknown": self.unknown,
            "confidence": self.confidence,
            "rates": [asdict(rate) for rate in self.rates],
        }

    def __repr__(self) -> str:
        lines = [f"{self.n_rows} rows; intervals at {number(100 * self.confidence)} %"]
        lines += [f"{name}: {count} rows of unknown group" for name, count in self.unknown.items()]
        for rate in self.rates:
            group = group_label(rate.attribute, rate.group, stratum=rate.stratum)
            text = f"{rate.measure}, {group}: "
            if rate.rate is not None:
                text += f"{share(rate.rate)} ({interval(rate.rate_low, rate.rate_high)})"
            text += f" of {rate.n_rows}"
            if rate.impact_ratio is not None:
                span = interval(rate.ratio_low, rate.ratio_high)
                text += f", impact ratio {share(rate.impact_ratio)} ({span})"
            lines.append(text + (f", left out: {rate.left_out}" if rate.left_out else ""))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (r.measure, group_label(r.attribute, r.group, stratum=r.stratum), r.n_rows, r.rate,
             interval(r.rate_low, r.rate_high), r.impact_ratio, interval(r.ratio_low, r.ratio_high),
             r.left_out)
            for r in self.rates
        ]  # fmt: skip
        head = ("measure", "group", "rows", "rate", "interval", "ratio", "interval", "left out")
        title = f"Rates of {self.n_rows} rows"
        unknown = [f"{name}: {count} rows of unknown group" for name, count in self.unknown.items()]
        return html_table(rows, head=head, title=title, note="; ".join(unknown))


def decision_rates(
    decision: Any = None,
    sensitive_features: Any = None,
    *,
    score: Any = None,
    label: Any = None,
    positive: Any = None,
    joint: bool = True,
    control_features: Any = None,
    sample_weight: Any = None,
    units: Any = None,
    min_group: int = 30,
    confidence: float = 0.95,
) -> DecisionReport:
    """Compare how often groups are selected.

    Parameters
    ----------
    decision : array-like of shape (n,), optional
        Two values, of which one means selected; see `positive`.
    sensitive_features : array-like, data frame or Rows
        Protected attributes; rows with a missing value are counted as unknown and left out.
    score : array-like of shape (n,), optional
        Numbers; the share above their median is compared.
    label : array-like of shape (n,), optional
        What was true: two values. Adds true and false positive rates, whose differences are those
        of equal opportunity and of equalised odds; needs `decision`.
    positive : value, optional
        The value of `decision` and `label` that means selected; the larger one by default.
    joint : bool, default True
        Whether intersections of several attributes are groups, too.
    control_features : array-like or data frame, optional
        Strata inside which groups are compared; rows without one are left out. The median of
        `score` stays that of all rows.
    sample_weight : array-like of shape (n,), optional
        Row weights.
    units : array-like of shape (n,), optional
        Which rows belong together, such as those of one person; intervals are those of units.
    min_group : int, default 30
        Groups with fewer rows are listed but not compared.
    confidence : float, default 0.95
        Of the intervals: Wilson's for rates, Newcombe's for differences, logarithmic for ratios.

    Returns
    -------
    DecisionReport
        Rates, differences and ratios to the group of the highest rate. They describe the rows;
        whether a difference is lawful is not a matter of these numbers.

    See Also
    --------
    audit : How well the groups can be predicted.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import decision_rates
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], 200)
    >>> hired = rng.random(400) < np.where(sex == "m", 0.4, 0.2)
    >>> worst = decision_rates(hired, sex).worst()
    >>> worst.group, round(worst.impact_ratio, 1)
    ('f', 0.5)
    """
    check_limits(min_group=min_group, confidence=confidence)
    parts = {"decision": decision, "score": score, "label": label}
    columns = {name: np.asarray(values) for name, values in parts.items() if values is not None}
    if not {"decision", "score"} & set(columns) or ("label" in columns and decision is None):
        raise InvalidInputError(
            "Give a decision or a score; a label needs a decision.", parameter="decision"
        )
    n_rows = len(next(iter(columns.values())))
    for name, values in columns.items():
        if values.shape != (n_rows,):
            raise InvalidInputError(
                f"{name} has shape {values.shape}: give one value for each of {n_rows} rows.",
                parameter=name,
            )
    attributes, unknown = _attributes(sensitive_features, n_rows, joint)
    strata = _strata(control_features, n_rows)
    weights = check_weights(sample_weight, n_rows, of="decision")
    counted = np.ones(n_rows, dtype=bool) if weights is None else weights > 0
    codes = None if units is None else encode_units(units, n_rows, "decision")[0]
    rates = [
        rate
        for measure, flags, inside in _measures(columns, positive, counted)
        for attribute, known in attributes
        for stratum, here in strata
        for rate in _compare(
            partial(GroupRate, measure, attribute.name, stratum=stratum),
            attribute,
            flags,
            (known & here, known & inside & here),
            (weights, codes),
            (min_group, confidence),
        )
    ]
    return DecisionReport(int(counted.sum()), unknown, confidence, tuple(rates))


def _attributes(
    sensitive_features: Any, n_rows: int, joint: bool
) -> tuple[list[tuple[Attribute, _Flags]], dict[str, int]]:
    """Return the attributes with masks of their known rows, and the unknown rows of each."""
    if isinstance(sensitive_features, Rows):
        groups = sensitive_features.groups
        if groups is None or groups.n_rows != n_rows:
            raise GroupsError(
                "sensitive_features has no groups, or not one for each decision.",
                parameter="sensitive_features",
            )
    else:
        groups = encode_groups(
            sensitive_features, n_rows=n_rows, of="decision", unknown=UNKNOWN_GROUP
        )
    columns = [(column, known_rows(column)) for column in groups.labelled()]
    unknown = {c.name: int((~known).sum()) for c, known in columns if not known.all()}
    if joint and len(columns) > 1:
        everywhere = np.logical_and.reduce([known for _, known in columns])
        columns.append((intersection(groups.categorical), everywhere))
    return columns, unknown


def _strata(control_features: Any, n_rows: int) -> list[tuple[str, _Flags]]:
    """Return the name and the rows of each stratum; without any, all rows."""
    if control_features is None:
        return [("", np.ones(n_rows, dtype=bool))]
    argument = "control_features"
    about: dict[str, Any] = {"n_rows": n_rows, "of": "decision", "unknown": UNKNOWN_GROUP}
    columns = encode_groups(control_features, argument=argument, **about).labelled(argument)
    known = np.logical_and.reduce([known_rows(column) for column in columns])
    member, strata = combine(columns), []
    for place, row in enumerate(np.unique(member, return_index=True)[1]):
        if known[row]:
            levels = {c.name: c.levels[c.codes[row]] for c in columns}
            strata.append((levels_text(levels, levels.values()), member == place))
    return strata


def _measures(
    columns: dict[str, NDArray[Any]], positive: Any, counted: _Flags
) -> Iterator[tuple[str, _Flags, _Flags]]:
    """Yield names of measures, which rows are selected, and over which rows a rate is taken."""
    n_rows = len(next(iter(columns.values())))
    everyone = np.ones(n_rows, dtype=bool)
    if "decision" in columns:
        selected = _flags(columns["decision"], positive, "decision")
        yield MEASURES[0], selected, everyone
    if "score" in columns:
        try:
            score: Array = columns["score"].astype(np.float64)
        except (TypeError, ValueError):
            score = np.full(n_rows, np.nan)
        if not np.isfinite(score).all():
            raise InvalidInputError("score must be finite numbers.", parameter="score")
        yield MEASURES[1], score > np.median(score[counted]), everyone
    if "label" in columns:
        truth = _flags(columns["label"], positive, "label")
        yield MEASURES[2], selected, truth
        yield MEASURES[3], selected, ~truth


def _flags(values: NDArray[Any], positive: Any, name: str) -> _Flags:
    """Say which rows have the value that means yes."""
    column = encode_groups(values, n_rows=len(values), argument=name, of=name).categorical
    levels: Sequence[Level] = column[0].levels if column else ()
    if positive is not None and positive not in levels:  # a command line can only say "1" for 1
        positive = next((level for level in levels if str(level) == str(positive)), positive)
    is_known = positive is None or positive in levels
    vague = len(levels) == 1 and positive is None and isinstance(levels[0], str)
    if not 1 <= len(levels) <= 2 or vague or (len(levels) == 2 and not is_known):
        raise InvalidInputError(
            f"{name} has the values {list(levels)[:5] or 'of many numbers'}"
            + (f", and positive={positive!r} is none of them" if not is_known else "")
            + ": give two, and say in positive which of them means selected.",
            parameter=name if len(levels) != 2 else "positive",
        )
    if len(levels) == 1:  # everybody, or nobody
        return np.full(len(values), bool(levels[0]) if positive is None else is_known)
    wanted = positive if positive is not None else levels[-1]
    return np.asarray(column[0].codes == levels.index(wanted))


def _compare(
    rate: Callable[..., GroupRate],
    attribute: Attribute,
    flags: _Flags,
    masks: tuple[_Flags, _Flags],
    weights_and_units: tuple[Array | None, Any],
    limits: tuple[int, float],
) -> list[GroupRate]:
    """Return the rates of the groups that occur, small ones not compared."""
    (known, inside), (weights, units) = masks, weights_and_units
    shares: dict[int, Share | None] = {}
    rates: dict[int, GroupRate] = {}
    for code in np.unique(attribute.codes[known]).tolist():
        rows = inside & (attribute.codes == code)
        if weights is not None:
            rows &= weights > 0
        size, hits = int(rows.sum()), int((rows & flags).sum())
        rates[code] = rate(attribute.levels[code], size, hits)
        share, unit = (None if part is None else part[rows] for part in (weights, units))
        shares[code] = Share.of(flags[rows], share, unit) if size else None
    large = [s for s in shares.values() if s is not None and s.n_rows >= limits[0]]
    best = max(large, key=lambda share: share.value, default=None)
    return [_described(rates[code], shares[code], best, *limits) for code in rates]


def _described(
    rate: GroupRate, share: Share | None, best: Share | None, min_group: int, confidence: float
) -> GroupRate:
    """Add the figures of a group, and how it compares with the best."""
    if share is None:
        return replace(rate, left_out="no rows")
    low, high = share.interval(confidence)
    rate = replace(rate, rate=share.value, rate_low=low, rate_high=high)
    if share.n_rows < min_group or best is None:
        return replace(rate, left_out=f"fewer than {min_group} rows")
    if best.value == 0:
        return replace(rate, left_out="no group has a rate above zero")
    if share is best:
        return replace(
            rate,
            difference=0.0,
            impact_ratio=1.0,
            difference_low=0.0,
            difference_high=0.0,
            ratio_low=1.0,
            ratio_high=1.0,
        )
    gap, quotient = difference(share, best, confidence), ratio(share, best, confidence)
    return replace(
        rate,
        difference=share.value - best.value,
        difference_low=gap.low,
        difference_high=gap.high,
        impact_ratio=share.value / best.value,
        ratio_low=quotient.low,
        ratio_high=quotient.high,
    )
