"""What `audit` returns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairpca._present import html_table, label, number, p_value, points, points_text
from fairpca.metrics._inference import (
    Difference,
    Effort,
    Family,
    HeldOut,
    Rates,
    difference_of_largest,
    paired_differences,
)
from fairpca.metrics._result import DeltaResult, Verdict, statistic_name, verdict
from fairpca.metrics.gaps import contrast_text
from fairpca.rows import Level

if TYPE_CHECKING:
    from fairpca.metrics.decisions import DecisionReport

AUDITED = "audited"
"""Name of the representation that is compared with the others."""


_NOTHING = verdict(None, 0.0, 0.0)
_NOISY = 0.25  # chance level from which a pair has too few rows to say, unless it exceeds it


class Comparison(NamedTuple):
    """An adversary and two groups of a stratum."""

    adversary: str
    attribute: str
    groups: tuple[Level, Level]
    stratum: dict[str, Level]
    small: bool

    def label(self) -> str:
        """Return a short name of the pair."""
        return label(self.attribute, self.groups[1], self.groups[0], self.stratum)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self._asdict(), "groups": list(self.groups), "pair": self.label()}


class AdversaryResult(NamedTuple):
    """A comparison, and the difference of rates on held-out rows, whose figures it has.

    A headline is the largest of `n_compared`, whose intervals hold together; its limits are the
    highest of theirs.
    """

    comparison: Comparison
    held_out: HeldOut
    n_compared: int = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held_out, name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        own, new = self.comparison.to_dict(), self.held_out.to_dict()
        return {**own, **new, "n_compared": self.n_compared}

    def text(self) -> str:
        """Return estimate and interval in percentage points, the adversary and the pair."""
        comparison = self.comparison
        return f"{self.held_out.text()}, {comparison.adversary}, {comparison.label()}"


class SmallGroup(NamedTuple):
    """A group too small for the headline of an audit; rows, or units."""

    attribute: str
    group: Level
    n_rows: int


class Missing(NamedTuple):
    """What the panel did not measure, and why."""

    adversary: str
    pair: str
    reason: str


class HeadlineDifference(NamedTuple):
    """Largest estimate of the audited representation less that of another, on the same rows."""

    of: str
    against: str
    estimate: float
    low: float
    high: float
    rows: tuple[tuple[Comparison, Difference], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        rows = [{**one.to_dict(), **difference._asdict()} for one, difference in self.rows]
        return {**self._asdict(), "rows": rows}

    def text(self) -> str:
        """Return the difference with its interval in percentage points."""
        return f"{self.of} − {self.against}: {points_text(self.estimate, self.low, self.high)}"


def _without_counts(headline: AdversaryResult) -> dict[str, Any]:
    left = ("error", "rates", "n_rows", "n_units")
    return {name: value for name, value in headline.to_dict().items() if name not in left}


@dataclass(frozen=True, eq=False)
class Representation:
    """What an audit measured of one representation; the audited one is the first."""

    name: str
    n_components: int
    gaps: dict[str, dict[str, Any]]  # the contrasts of the largest mean and covariance gap
    mmd2: float | None
    gaussian_bound: float
    contrasts: tuple[dict[str, Any], ...]
    in_sample: Sequence[DeltaResult] = ()  # on the rows that classifiers are fitted to
    held_out: tuple[AdversaryResult, ...] = ()  # one for each adversary and pair
    headline: AdversaryResult | None = None
    verdict: Verdict = _NOTHING

    @property
    def mean_gap(self) -> float:
        """Largest mean gap."""
        return float(self.gaps["mean_gap"]["mean_gap"])

    @property
    def cov_gap(self) -> float:
        """Largest covariance gap."""
        return float(self.gaps["cov_gap"]["cov_gap"])

    def measured(
        self,
        comparisons: Sequence[Comparison],
        rates: Sequence[Rates],
        missing: int,
        confidence: float,
        seed: int,
    ) -> Representation:
        """Add figures on held-out rows, whose intervals hold together."""
        if not rates:
            return self
        kept = [k for k, one in enumerate(comparisons) if not one.small] or range(len(rates))
        family = Family.of([rates[k].influence for k in kept], seed)
        held_out = tuple(
            AdversaryResult(comparison, one.described(family, confidence), len(kept))
            for comparison, one in zip(comparisons, rates, strict=True)
        )
        measured = replace(self, held_out=held_out)
        counted = [held_out[k] for k in measured.counted()]
        best = max(counted, key=lambda row: row.estimate)
        # Where all intervals hold, the largest true value is above each lower limit, and below one
        # of the upper limits: that of a noisier comparison, it may be.
        low, high = (max(getattr(row, end) for row in counted) for end in ("low", "high"))
        best = best._replace(held_out=replace(best.held_out, low=low, high=high))
        undecided = {row.comparison.label() for row in measured.undecided()}
        small = best.comparison.small or best.comparison.label() in undecided
        word = verdict(best.estimate, best.low, best.high, missing=missing, small=small)
        return replace(measured, headline=best, verdict=word)

    def counted(self) -> list[int]:
        """Return the places in `held_out` whose largest estimate is the headline.

        Small groups and undecided pairs are left out, unless nothing else was measured.
        """
        labels = [row.comparison.label() for row in self.held_out]
        kept = [k for k, row in enumerate(self.held_out) if not row.comparison.small]
        left = {row.comparison.label() for row in self.undecided()}
        return [k for k in kept if labels[k] not in left] or kept or list(range(len(labels)))

    def by_adversary(self) -> list[AdversaryResult]:
        """Return the largest result of each adversary; the largest of them is the headline."""
        largest: dict[str, AdversaryResult] = {}
        for row in (self.held_out[k] for k in self.counted()):
            name = row.comparison.adversary
            largest[name] = max(largest.get(name, row), row, key=lambda one: one.estimate)
        return list(largest.values())

    def undecided(self) -> list[AdversaryResult]:
        """Return the pairs with too few rows to say, each by its largest upper limit.

        Chance alone may show 25 points or more there, and explains what every adversary found:
        among many pairs, the noise of the smallest would be the largest estimate. How many rows
        there are decides, not how large an estimate is: else a large one could be left out.
        """
        pairs: dict[str, list[AdversaryResult]] = {}
        for row in self.held_out:
            if not row.comparison.small:
                pairs.setdefault(row.comparison.label(), []).append(row)
        return [
            max(rows, key=lambda row: row.high)
            for rows in pairs.values()
            if max(row.chance for row in rows) >= _NOISY
            and all(row.estimate <= row.chance for row in rows)
        ]

    def to_dict(self, compare: str) -> dict[str, Any]:
        """Return plain values; gaps say of which comparison they are."""
        bound = self.gaussian_bound if np.isfinite(self.gaussian_bound) else None  # JSON has none
        return {
            "name": self.name,
            "n_components": self.n_components,
            "headline": None if self.headline is None else _without_counts(self.headline),
            "verdict": self.verdict._asdict(),
            "held_out": [row.to_dict() for row in self.held_out],
            "by_adversary": [row.to_dict() for row in self.by_adversary()],
            "undecided": [_without_counts(row) for row in self.undecided()],
            "in_sample": [
                {
                    "statistic": statistic_name(result.family, result.method),
                    "pair": result.worst.label(),
                    **result.to_dict(),
                }
                for result in self.in_sample
            ],
            "gaps": {
                "compare": compare,
                "mean_gap": self.mean_gap,
                "cov_gap": self.cov_gap,
                "mean_gap_of": contrast_text(self.gaps["mean_gap"]),
                "cov_gap_of": contrast_text(self.gaps["cov_gap"]),
                "mmd2": self.mmd2,
                "gaussian_bound": bound,
            },
            "contrasts": list(self.contrasts),
        }


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """Result of `audit`; ``print`` shows it, and docs/design/evidence-protocol.md explains it.

    Parameters
    ----------
    representations : tuple
        The audited one, and those it is compared with: name, held_out, headline, verdict,
        in_sample, gaps.
    differences : tuple
        The audited representation less each of the others, with an interval.
    missing : tuple
        What the panel of adversaries did not measure.
    n_rows, n_units, drawn : int, int or None, tuple of two int
        Rows and units in all, and those that were drawn and held out.
    small_groups, effort, settings
        Groups too small for a headline, sizes and counts, arguments of `audit`.
    n_pairs : int
        Pairs of groups; with many, an adversary is trained on fewer rows.
    unknown : dict
        Rows that were left out because their group is unknown, by attribute.
    decisions : DecisionReport or None
        Rates of decisions by group, where there were any.
    losses : dict of lists, or None
        What each group loses, as `group_loss` says, with `original`.

    See Also
    --------
    audit : What makes it.
    fairpca.report.audit_report : The same on a page.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import audit
    >>> z = np.repeat(["a", "b"], 200)
    >>> U = np.random.default_rng(0).normal(size=(400, 2)) + 2 * (z == "b")[:, None]
    >>> report = audit(U, z, families=(), effort="quick")
    >>> report.verdict.word, report.headline.estimate > 0.6
    ('much', True)
    """

    representations: tuple[Representation, ...]
    differences: tuple[HeadlineDifference, ...]
    missing: tuple[Missing, ...]
    n_rows: int
    n_units: int | None
    drawn: tuple[int, int]
    small_groups: tuple[SmallGroup, ...]
    effort: Effort
    settings: dict[str, Any]
    n_pairs: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    decisions: DecisionReport | None = None
    losses: dict[str, list[Any]] | None = None

    @classmethod
    def of(
        cls,
        representations: Sequence[Representation],
        measured: Sequence[tuple[Comparison, Sequence[Rates]]],
        *,
        missing: tuple[Missing, ...],
        settings: dict[str, Any],
        **facts: Any,
    ) -> AuditReport:
        """Make tables, headlines, verdicts and differences of the rates on held-out rows."""
        confidence, seed = settings["confidence"], settings["random_state"]
        comparisons = [comparison for comparison, _ in measured]
        columns = [[rates[k] for _, rates in measured] for k in range(len(representations))]
        full = [
            one.measured(comparisons, rates, len(missing), confidence, seed)
            for one, rates in zip(representations, columns, strict=True)
        ]
        kept = [k for k, one in enumerate(comparisons) if not one.small] or range(len(comparisons))
        differences = []
        limits = (confidence, seed)
        for other, rates in zip(full[1:], columns[1:], strict=True) if measured else ():
            both = (columns[0], rates)
            one, two = ([some[k] for k in kept] for some in both)
            rows = paired_differences(one, two, *limits)
            # A pair that is clear in one representation may be the largest of both.
            counted = (full[0].counted(), other.counted())
            one, two = ([some[k] for k in sorted({*counted[0], *counted[1]})] for some in both)
            best, worst = (
                max(some[k].estimate for k in own) for some, own in zip(both, counted, strict=True)
            )
            largest = difference_of_largest(one, two, *limits).around(best - worst)
            named = tuple(zip((comparisons[k] for k in kept), rows, strict=True))
            differences.append(HeadlineDifference(full[0].name, other.name, *largest, named))
        return cls(tuple(full), tuple(differences), missing, settings=settings, **facts)

    @property
    def headline(self) -> AdversaryResult | None:
        """The largest estimate of the audited representation; None where nothing was measured."""
        return self.representations[0].headline

    @property
    def verdict(self) -> Verdict:
        """The verdict of the audited representation."""
        return self.representations[0].verdict

    @property
    def notes(self) -> tuple[str, ...]:
        """What limits in-sample values, each once."""
        results = [result for one in self.representations for result in one.in_sample]
        return tuple(dict.fromkeys(r.worst.note for r in results if r.worst.note))

    def to_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write a page with that title, and its figures as JSON next to it; return its path."""
        # Pages are made in a package above this one: imported by name, when one is wanted.
        pages = import_module("fairpca.report._audit_report")
        rows = self.representations[0].held_out
        attributes = list(dict.fromkeys(row.comparison.attribute for row in rows))
        about = {"title": title, "options": self.settings, "attributes": attributes}
        return Path(pages.make_page(self, about=about).to_html(path))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; everything that a page about the audit needs."""
        settings = self.settings
        names = ("compare", "joint", "reference")
        representations = [one.to_dict(settings["compare"]) for one in self.representations]
        return {
            "n_rows": self.n_rows,
            "n_units": self.n_units,
            "min_group": settings["min_group"],
            "confidence": settings["confidence"],
            "effort": {**asdict(self.effort), "text": self._effort_text()},
            "comparison": {name: settings[name] for name in names},
            "design": {"n_rows": self.drawn[0], "n_units": self.drawn[1]},
            "headline": representations[0]["headline"],
            "verdict": representations[0]["verdict"],
            "representations": representations,
            "differences": [difference.to_dict() for difference in self.differences],
            "missing": [one._asdict() for one in self.missing],
            "small_groups": [group._asdict() for group in self.small_groups],
            "unknown": self.unknown,
            "decisions": None if self.decisions is None else self.decisions.to_dict(),
            "losses": self.losses,
            "settings": settings,
        }

    def _effort_text(self) -> str:
        return self.effort.text(self.n_pairs, len(self.settings["adversaries"]))

    def __repr__(self) -> str:
        lines = [f"{self.n_rows} rows, {self.drawn[0]} of them held out in turn"]
        lines.append(self._effort_text())
        for one in self.representations:
            lines.append(f"{one.name}, {one.n_components} components: {one.verdict.word}")
            if one.headline is not None:
                lines.append(f"  largest on held-out rows: {one.headline.text()}")
            for row in one.by_adversary():
                lines.append(f"  {row.text()}, chance {points(row.held_out.chance)}")
            for result in one.in_sample:
                name = statistic_name(result.family, result.method)
                text = f"  in-sample, {name}: {points(result.value)} points"
                if result.null is not None:
                    null = result.null
                    text += f", permuted {points(null.mean)} to {points(null.quantile)}, "
                    text += f"p = {p_value(null.p_value)}, {null.n_rows} rows"
                lines.append(text)
            lines.append(
                f"  {self.settings['compare']}: mean gap {number(one.mean_gap)}, covariance gap "
                f"{number(one.cov_gap)}, MMD² {number(one.mmd2)}, Gaussian bound "
                f"{points(min(one.gaussian_bound, 1.0))} points"
            )
        return "\n".join([*lines, *self._more_lines()])

    def _repr_html_(self) -> str:
        rows = [
            (one.name, row.comparison.adversary, row.comparison.label(), row.held_out.text(),
             points(row.held_out.chance))
            for one in self.representations
            for row in one.by_adversary()
        ]  # fmt: skip
        head = ("representation", "adversary", "pair", "difference", "chance stays below")
        title = f"Audit of {self.n_rows} rows: {self.verdict.word}"
        return html_table(rows, head=head, title=title, note="; ".join(self._more_lines()))

    def _more_lines(self) -> list[str]:
        lines = [difference.text() for difference in self.differences]
        lines += [
            f"not measured: {one.adversary}, {one.pair}: {one.reason}" for one in self.missing
        ]
        if self.small_groups:
            named = [f"{label(g.attribute, g.group)} ({g.n_rows})" for g in self.small_groups]
            what = "rows" if self.n_units is None else "units"
            lines.append(f"fewer than {self.settings['min_group']} {what}: {', '.join(named)}")
        lines += [f"{name}: {n} rows of unknown group left out" for name, n in self.unknown.items()]
        if self.losses is not None:
            place = int(np.argmax(self.losses["loss"]))
            kept, best, loss = (
                number(self.losses[name][place]) for name in ("variance", "best", "loss")
            )
            group = self.losses["group"][place]
            lines.append(f"largest loss: {group} keeps {kept} of {best}, loses {loss}")
        if self.decisions is not None:
            lines.append(repr(self.decisions))
        return lines + [f"note: {note}" for note in self.notes]
