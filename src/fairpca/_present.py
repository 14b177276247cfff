"""Names, numbers, tables and progress as people see them: in terminals, pages, reprs, pictures."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

from fairpca.exceptions import InvalidInputError

_HIDDEN = {"Cc", "Cs", "Zl", "Zp"}
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_LONGEST = 200  # characters of a name
_ROUNDING = 1e-9  # a gap smaller than this share of its scale is rounding
NOTHING = "–"
"""What stands where there is no value."""
NOT_COMPUTED = "not computed"
TOO_FEW = (
    "not measured, no part of the held-out rows has two rows or units of both groups in each half"
)


def visible(text: str) -> str:
    """Write out what a terminal would obey instead of show."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        repr(mark)[1:-1]
        if unicodedata.category(mark) in _HIDDEN or unicodedata.bidirectional(mark) in _TURNING
        else mark
        for mark in text
    )


def shorten(name: Any, longest: int = _LONGEST) -> str:
    """Return a name from data as visible text that is not endless."""
    text = str(name)
    return visible(text if len(text) <= longest else f"{text[: longest - 1]}…")


def label(attribute: Any, group: Any, other: Any = "", stratum: Any = "") -> str:
    """Name a group, or two that are compared, and the stratum they are compared in."""
    if isinstance(stratum, Mapping):
        stratum = levels_text(stratum, stratum.values())
    text = f"{attribute}: {group}" if attribute else str(group)
    text += "" if other in ("", None) else f" vs {other}"
    return f"{text} where {stratum}" if stratum not in ("", None) else text


def levels_text(columns: Iterable[Any], levels: Iterable[Any]) -> str:
    """Name a cell by its columns and their levels."""
    return ", ".join(f"{name}={level}" for name, level in zip(columns, levels, strict=True))


def number(value: float | None, scale: float | None = None) -> str:
    """Write a number with at most four significant digits; rounding errors of `scale` are 0."""
    if value is None or not math.isfinite(value):
        return NOTHING
    sign, size = "−" if value < 0 else "", abs(value)
    if size == 0 or (scale and size <= _ROUNDING * scale):
        return "0"
    if 1e-3 <= size < 10:
        return f"{sign}{size:.3f}"
    return sign + (f"{size:.4g}" if 10 <= size < 1e4 else f"{size:.1e}")


def penalty_text(penalty: float) -> str:
    """Write a penalty as short as a point of a curve allows, two digits and no zeros behind."""
    return f"{penalty:.2g}" if penalty < 10 else f"{penalty:.0f}"


def share(value: float | None) -> str:
    """Write a share, or a difference of shares, with three digits."""
    return NOTHING if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """Write a share as a percentage with one digit."""
    return NOTHING if value is None else f"{100 * value:.1f} %".replace("-", "−")


def points(difference: float | None) -> str:
    """Write a difference of shares in percentage points with one digit."""
    if difference is None or not math.isfinite(difference):
        return NOTHING
    return f"{100 * difference:.1f}".replace("-", "−")


def with_error(value: float, error: float, unit: Any = number) -> str:
    """Write a value with its standard error; nothing where there was nothing to measure."""
    return f"{unit(value)} ± {unit(error)}" if math.isfinite(value) else NOTHING


def points_text(estimate: float, low: float, high: float) -> str:
    """Write a difference of shares with its interval."""
    return f"{points(estimate)} points ({points(low)} to {points(high)})"


def interval(low: float | None, high: float | None, unit: Any = share) -> str:
    """Write an interval in the unit of its value: `share`, `number`, `percent` or `points`."""
    return NOTHING if low is None or high is None else f"{unit(low)} to {unit(high)}"


def p_value(value: float | None) -> str:
    """Write a p-value with three digits."""
    return NOTHING if value is None else "< 0.001" if value < 1e-3 else f"{value:.3f}"


def delta_request(model: Any) -> str | None:
    """Say which Δ was requested and which is estimated; None where nothing was measured."""
    if getattr(model, "delta_", None) is None:
        return None
    most = f"at most {points(model.delta)} points"
    request = "as low as chance allows" if model.delta is None else most
    value = f"{with_error(model.delta_, model.delta_error_, points)} points"
    chance = f"chance alone gives up to {points(model.delta_chance_)} points"
    limit = model.delta_chance_ if model.delta is None else model.delta
    said = f"Requested Δ: {request}. Estimated for new data: {value}."
    if limit < model.delta_chance_:
        also = "was not reached and " if model.delta_ > limit else ""
        return f"{said} The request {also}cannot be verified with so few rows: {chance}."
    missed = " The request was not reached." if model.delta_ > limit else ""
    return f"{said}{missed} {chance.capitalize()}."


def optimality(gap: float) -> str:
    """Say how far from the best possible a certified value can be; the percentage is rounded up."""
    return (
        "optimal" if gap < 5e-7 else f"within {math.ceil(1000 * gap - 1e-9) / 10:.1f} % of optimal"
    )


def verdict(certificate: Mapping[str, Any]) -> str:
    """Say what a certificate proves: how close to optimal, or what is possible at most and why."""
    if certificate["proven"]:
        return f"{optimality(certificate['gap'])} (proven)"
    objective, left = certificate["objective"], certificate["bound"] - certificate["objective"]
    # Of nothing, of losses and of next to nothing a percentage says nothing.
    is_share = 0.0 < left <= 10.0 * objective
    more = f"{math.ceil(1000 * left / objective - 1e-9) / 10:.1f} %" if is_share else number(left)
    why = _OPEN if certificate["bound_solved"] else "and the bound was not solved to tol"
    settled = "a local optimum" if certificate["basis_settled"] else "a basis short of an optimum"
    return f"{_BASES.get(certificate['solver'], settled)}; at most {more} more is possible, {why}"


_OPEN = (
    "and more iterations will not narrow this: the bound is loose or a better optimum is elsewhere"
)
_BASES = {
    "deflation": "components found one after the other",
    "tight": "a rounded relaxation",
    "paper": "a rounded relaxation",
}


_OBJECTIVES = {
    "worst-variance": " (of the group that keeps least, less the penalty)",
    "worst-loss": " (minus the largest loss of a group, less the penalty)",
}


def certificate_text(model: Any) -> str:
    """Say what the certificate of a fitted model proves, and whether its scores are correlated."""
    certificate, short = model.certificate_, certificate_words(model)
    of = _OBJECTIVES.get(certificate.criterion, "")
    figures = f"objective{of} {number(certificate.objective)}, bound {number(certificate.bound)}"
    if is_sparse(model):
        text = f"Certificate: {short}."
    elif short == NOT_COMPUTED:
        text = f"Certificate: {short} ({figures}; the bound ignores covariances and is loose)."
    else:
        as_much = "" if certificate.target_kept is None else " and keeps as much of the target"
        text = (
            f"Certificate: {verdict(certificate.as_dict())} ({figures}). No other set of this many "
            f"components that satisfies the constraints{as_much} can exceed the bound."
        )
    if (largest := getattr(model, "correlation_", 0.0)) >= 0.005:
        rotated = " rotated" if getattr(model, "rotation", None) else ""
        text += f" The{rotated} scores are correlated, up to {largest:.2f}."
    return text


def certificate_words(model: Any) -> str:
    """Say the same in a few words."""
    certificate = model.certificate_
    if is_sparse(model):
        total = float(model.explained_variance_ratio_.sum())
        most = percent(total * certificate.bound / (certificate.objective or 1.0))
        d, equal = model.n_components_, "" if model.mean_tol != 0 else " with equal group means"
        which = f"{d} scores{equal} explain" if d > 1 else f"score{equal} explains"
        return f"explains {percent(total)}; no {which} more than {most}"
    if not model.certify and certificate.solver in ("refined", "deflation"):
        return NOT_COMPUTED
    return optimality(certificate.gap) + (" (proven)" if certificate.proven else "")


def share_of_variance(model: Any) -> str:
    """Say what the variance kept by a model is a share of."""
    table = "table that a regression on the scores explains"
    return f"share of the {table if is_sparse(model) else 'total variance'}"


def is_sparse(model: Any) -> bool:
    """Whether a fitted model has sparse components, whose scores explain the table."""
    return hasattr(model, "balance_")


def records(table: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table of columns."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def html_table(
    rows: Iterable[Sequence[Any]], *, head: Sequence[str] = (), title: str = "", note: str = ""
) -> str:
    """Return a table for notebooks with a line above and below it; every text is escaped."""
    parts = ['<div class="fairpca">']
    if title:
        parts.append(f"<p><strong>{escape(title)}</strong></p>")
    parts.append("<table>")
    if head:
        names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
        parts.append(f"<thead><tr>{names}</tr></thead>")
    lines = ("".join(f"<td>{_cell(value)}</td>" for value in row) for row in rows)
    parts += ["<tbody>", *(f"<tr>{line}</tr>" for line in lines), "</tbody></table>"]
    if note:
        parts.append(f"<p>{escape(note)}</p>")
    return "".join([*parts, "</div>"])


def _cell(value: Any) -> str:
    if value is None or isinstance(value, float):
        return number(value)
    return escape(str(value))


Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with how much is done and, where it is known, how much there is in all."""


class Counter:
    """Counts what is done and calls the callback, if there is one."""

    def __init__(self, total: int | None = None, progress: Progress | None = None) -> None:
        if progress is not None and not callable(progress):
            raise InvalidInputError(
                f"progress={progress!r}: give a function of what is done and what there is in all, "
                "such as print; only the command line draws a bar.",
                parameter="progress",
            )
        self.total, self.done = total, 0
        self._progress = progress

    def add(self, count: int = 1) -> None:
        """Count, and call the callback."""
        self.done += count
        if self._progress is not None:
            self._progress(self.done, self.total)


_UNLIKE = 4.0  # what a kind of steps says of another is cut to this factor


def seconds_left(
    remaining: Iterable[tuple[str, float, Any]],
    planned: Mapping[str, float],
    taken: Mapping[str, float],
) -> float:
    """Return how long steps will take, by what those of their kind took, or all others so far."""
    paces = {kind: taken[kind] / planned[kind] for kind in planned if planned[kind]}
    # A kind that takes ten times as long as planned (a linear SVM without a direction is replaced
    # by a search) says little of the others; the machine's pace is in the middle of them all.
    known = [math.log(min(max(pace, 1.0 / _UNLIKE), _UNLIKE)) for pace in paces.values()]
    pace = math.exp(sum(known) / (1 + len(known)))  # one more that is as planned
    return sum(expected * paces.get(kind, pace) for kind, expected, _ in remaining)
