"""What `audit` returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca._present import html_table, label
from fairpca.metrics._result import DeltaResult, null_cells
from fairpca.metrics.bounds import HeldOut, delta_bound
from fairpca.rows import Level

if TYPE_CHECKING:
    from fairpca.metrics.decisions import DecisionReport


@dataclass(frozen=True, eq=False)
class AdversaryResult:
    """Difference in selection rates that one adversary attains for one pair of groups.

    Parameters
    ----------
    adversary : str
        "linear" (half-spaces), "gaussian" (kernel SVM), "trees" (boosted trees) or "mlp" (a small
        neural network).
    attribute, groups, stratum
        As in `DeltaPair`; the group "rest" is everybody else in the stratum.
    held_out : HeldOut
        Difference of rates on held-out rows, with its interval.

    Examples
    --------
    >>> from fairpca.metrics import AdversaryResult, HeldOut
    >>> held_out = HeldOut(0.4, 0.2, 0.6, 0.95, 0.001, (50, 50))
    >>> AdversaryResult("trees", "sex", ("f", "m"), {}, held_out).held_out.low
    0.2
    """

    adversary: str
    attribute: str
    groups: tuple[Level, Level]
    stratum: dict[str, Level]
    held_out: HeldOut

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a table or for JSON."""
        return asdict(self)

    def label(self) -> str:
        """Return a short name of the pair."""
        return label(self.attribute, self.groups[1], self.groups[0], self.stratum)


@dataclass(frozen=True)
class SmallGroup:
    """A group too small for the headline of an audit."""

    attribute: str
    group: Level
    n_rows: int


@dataclass(frozen=True)
class Headline:
    """The largest value on held-out rows, by the lower limit of its interval.

    The largest of several is often large by chance, so the interval is widened until all
    `n_compared` of them hold together (Bonferroni). `small`: every comparison has a small group.
    """

    by: str
    pair: str
    held_out: HeldOut
    n_compared: int = 1
    small: bool = False

    def text(self) -> str:
        """Return the value with its interval, and what the interval allows for."""
        value = f"{self.held_out.text()}, {self.pair}"
        several = f", the interval allows for {self.n_compared} comparisons"
        return value + (several if self.n_compared > 1 else "")


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """Result of `audit`; ``print`` shows a table.

    Parameters
    ----------
    n_rows, n_components : int
        Size of the representation.
    results : tuple of DeltaResult
        One for each family and method.
    adversaries : tuple of AdversaryResult
        One for each adversary and pair, each on rows it was not trained on.
    confidence : float
        Probability with which each bound and each interval holds.
    mean_gap, cov_gap, mmd2, gaussian_bound : float
        The measures of those names; mmd2 is None where the budget did not reach it.
    contrasts : tuple of dict
        Mean and covariance gap of every contrast.
    min_group : int
        Rows that both groups of a headline have.
    small_groups : tuple of SmallGroup
        Groups that have fewer.
    cut : tuple of str
        What was left out or done on a sample to keep to the budget.
    options : dict
        Families, adversaries and the fields of `AuditOptions`.
    unknown : dict
        Rows that were left out because their group is unknown, by attribute.
    decisions : DecisionReport or None
        Rates of decisions by group, where there were any.
    losses : dict of lists, or None
        What each group loses, as `group_loss` says, with `original`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import audit
    >>> z = np.repeat(["a", "b"], 30)
    >>> U = np.random.default_rng(0).normal(size=(60, 2)) + (z == "b")[:, None]
    >>> report = audit(U, z, families=("linear",), n_permutations=19, slow_permutations=0)
    >>> [round(float(result), 1) for result in report.results]
    [0.6, 0.6]
    """

    n_rows: int
    n_components: int
    results: tuple[DeltaResult, ...]
    adversaries: tuple[AdversaryResult, ...]
    confidence: float
    mean_gap: float
    cov_gap: float
    mmd2: float | None
    gaussian_bound: float
    contrasts: tuple[dict[str, Any], ...]
    min_group: int
    small_groups: tuple[SmallGroup, ...]
    cut: tuple[str, ...]
    options: dict[str, Any]
    unknown: dict[str, int] = field(default_factory=dict)
    decisions: DecisionReport | None = None
    losses: dict[str, list[Any]] | None = None

    @property
    def bounds(self) -> tuple[float | None, ...]:
        """For each result an upper bound of what `bounds_of` says, None where there is none."""
        return tuple(self._bound(result)[0] for result in self.results)

    @property
    def bounds_of(self) -> tuple[str | None, ...]:
        """What is bounded on new data: Δ of the whole "family", or of this "classifier"."""
        return tuple(self._bound(result)[1] for result in self.results)

    def _bound(self, result: DeltaResult) -> tuple[float | None, str | None]:
        if result.supremum:
            size = sum(result.worst.n_rows)
            return delta_bound(result, size, result.n_components, self.confidence), "family"
        if result.worst.held_out is not None:
            return result.worst.held_out.high, "classifier"
        return None, None

    @property
    def headline(self) -> Headline | None:
        """The worst on held-out rows, by the lower limit; None where nothing was held out."""
        every = [
            (f"{result.family} {result.method}", pair.label(), pair.held_out, pair.small)
            for result in self.results
            for pair in result.pairs
            if pair.held_out is not None
        ]
        every += [(a.adversary, a.label(), a.held_out, self._is_small(a)) for a in self.adversaries]
        entries = [entry for entry in every if not entry[-1]] or every
        count = len(entries)
        wide = (
            Headline(by, pair, new.worst_of(count), count, few) for by, pair, new, few in entries
        )
        return max(wide, key=lambda entry: entry.held_out.low, default=None)

    def _is_small(self, result: AdversaryResult) -> bool:
        return min(result.held_out.n_rows) < self.min_group // 2  # half of the rows are held out

    def _counted(self) -> list[AdversaryResult]:
        """Return adversaries on groups that are not small, unless all are."""
        return [a for a in self.adversaries if not self._is_small(a)] or list(self.adversaries)

    def by_adversary(self) -> list[AdversaryResult]:
        """Return the largest result of each adversary, by the lower limit of its interval."""
        largest = {a.adversary: a for a in sorted(self._counted(), key=lambda a: a.held_out.low)}
        return [largest[name] for name in self.options["adversaries"] if name in largest]

    @property
    def strongest(self) -> AdversaryResult | None:
        """The largest result of all adversaries, by the lower limit of its interval."""
        return max(self._counted(), key=lambda result: result.held_out.low, default=None)

    def to_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write a page with that title, and its figures as JSON next to it; return its path."""
        # Pages are made in a package above this one: imported by name, when one is wanted.
        pages = import_module("fairpca.report._audit_report")
        about = {"title": title, "options": self.options, "attributes": self._attributes()}
        return Path(pages.make_page(self, about=about).to_html(path))

    def _attributes(self) -> list[str]:
        attributes = (pair.attribute for result in self.results for pair in result.pairs)
        return list(dict.fromkeys(attributes))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; everything that a page about the audit needs."""
        return {
            "n_rows": self.n_rows,
            "n_components": self.n_components,
            "confidence": self.confidence,
            "headline": None if self.headline is None else asdict(self.headline),
            "delta": [
                {**result.to_dict(), "bound": bound, "bound_of": of}
                for result, bound, of in zip(self.results, self.bounds, self.bounds_of, strict=True)
            ],
            "adversaries": [result.to_dict() for result in self.adversaries],
            "by_adversary": [result.to_dict() for result in self.by_adversary()],
            "strongest": None if self.strongest is None else self.strongest.to_dict(),
            "mean_gap": self.mean_gap,
            "cov_gap": self.cov_gap,
            "mmd2": self.mmd2,
            # JSON has no infinity.
            "gaussian_bound": self.gaussian_bound if np.isfinite(self.gaussian_bound) else None,
            "contrasts": list(self.contrasts),
            "min_group": self.min_group,
            "small_groups": [asdict(group) for group in self.small_groups],
            "unknown": self.unknown,
            "decisions": None if self.decisions is None else self.decisions.to_dict(),
            "losses": self.losses,
            "cut": list(self.cut),
            "settings": self.options,
        }

    def __repr__(self) -> str:
        head = f"{'family':<8}{'method':<8}{'Δ':>7}{'null':>7}{'q95':>7}{'p':>8}{'cross':>7}"
        head += f"{'bound':>7}{'of':>11}  largest for"
        lines = [f"{self.n_rows} rows, {self.n_components} components", head]
        for result, bound, of in zip(self.results, self.bounds, self.bounds_of, strict=True):
            cells = (
                _cell(result.value, 7),
                *map(_cell, null_cells(result.null), (7, 7, 8)),
                _cell(result.worst.cross_fit_value, 7),
                _cell(bound, 7),
                f"{of or '–':>11}",
            )
            label = result.worst.label()
            lines.append(f"{result.family:<8}{result.method:<8}{''.join(cells)}  {label}")
        return "\n".join([*lines, *self._more_lines()])

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (f"{result.family}, {result.method}", result.value, *null_cells(result.null),
             None if result.worst.held_out is None else result.worst.held_out.text(),
             result.worst.label())
            for result in self.results
        ]  # fmt: skip
        rows += [
            (f"adversary: {a.adversary}", None, None, None, None, a.held_out.text(), a.label())
            for a in self.adversaries
        ]
        head = ("classifier", "Δ", "null mean", "null 95 %", "p", "on held-out rows", "pair")
        title = f"Audit of {self.n_rows} rows and {self.n_components} components"
        shown, more = rows[:40], len(rows) - 40
        notes = [line for line in self._more_lines() if not line.startswith("on held-out rows")]
        notes += [f"{more} more adversaries"] if more > 0 else []
        return html_table(shown, head=head, title=title, note="; ".join(notes))

    def _more_lines(self) -> list[str]:
        lines = [
            f"on held-out rows, {a.adversary}: {a.held_out.text()}, {a.label()}"
            for a in self.by_adversary()
        ]
        if self.headline is not None:
            lines.append(f"on held-out rows, worst: {self.headline.by}: {self.headline.text()}")
        mmd2 = "–" if self.mmd2 is None else f"{self.mmd2:.4g}"
        lines.append(
            f"mean gap {self.mean_gap:.4g}, covariance gap {self.cov_gap:.4g}, MMD² {mmd2}, "
            f"Gaussian bound {self.gaussian_bound:.3g}"
        )
        if self.small_groups:
            named = [f"{g.attribute}={g.group} ({g.n_rows})" for g in self.small_groups]
            is_headline = self.headline is not None and self.headline.small
            few = f"fewer than {self.min_group} rows" + ("" if is_headline else ", no headline")
            lines.append(f"{few}: {', '.join(named)}")
        lines += [f"{name}: {n} rows of unknown group left out" for name, n in self.unknown.items()]
        if self.losses is not None:
            place = int(np.argmax(self.losses["loss"]))
            kept, best, loss, group = (
                self.losses[name][place] for name in ("variance", "best", "loss", "group")
            )
            lines.append(f"largest loss: {group} keeps {kept:.4g} of {best:.4g}, loses {loss:.4g}")
        if self.decisions is not None:
            lines.append(repr(self.decisions))
        notes = dict.fromkeys(r.worst.note for r in self.results if r.worst.note)
        said = [f"cut to keep to the budget: {cut_in_a_line(self.cut)}"] if self.cut else []
        return lines + [f"note: {note}" for note in (*notes, *said)]


def _cell(value: float | None, width: int) -> str:
    return f"{'–' if value is None else f'{value:.3f}':>{width}}"


def cut_in_a_line(cut: Iterable[str]) -> str:
    """Name together what was cut in the same way."""
    names: dict[str, list[str]] = {}
    for text in cut:
        name, _, how = text.partition(": ")
        names.setdefault(how, []).append(name)
    return "; ".join(f"{', '.join(named)}: {how}" for how, named in names.items())
