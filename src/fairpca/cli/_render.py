"""The result of a fit as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairpca import __version__
from fairpca._files import to_json as json_text
from fairpca._present import visible

if TYPE_CHECKING:  # estimators take a while to import, and an audit has none
    from fairpca.cli._compare import Comparison

# Below this, relative to the gap of plain PCA, a gap is rounding and printed as 0.
_ROUNDING = 1e-9
_LONGEST_NAME = 200
_ABOUT = {
    "total": "",
    "worst-variance": " (variance less penalty of the gap, of the worst-served group)",
    "worst-loss": " (minus loss and penalty of the gap, of the worst-served group)",
}


def new_console(heading: Sequence[str]) -> Console:
    """Return a console that has said what the data are; wide enough for any table in a file."""
    out = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    for line in heading:
        out.print(escape(visible(line)))
    out.print()
    return out


def shown(name: Any) -> str:
    """Return a name of the user's for a table: no markup, no control characters, not endless."""
    text = str(name)
    text = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
    return escape(visible(text))


def format_number(value: float | None, scale: float | None = None) -> str:
    """Print a gap with four digits; what is rounding against `scale` is printed as 0.

    >>> from fairpca.cli._render import format_number
    >>> format_number(0.12345), format_number(1e-17, 1.0), format_number(None)
    ('0.1235', '0', '–')
    """
    if value is None:
        return "–"
    if value == 0 or (scale and value <= _ROUNDING * scale):
        return "0"
    return f"{value:.4f}" if 1e-3 <= value < 1e4 else f"{value:.2e}"


def new_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def print_fit(comparison: Comparison, heading: Sequence[str]) -> None:
    """Print the comparison with plain PCA and one row for each contrast."""
    out = new_console(heading)
    out.print(_summary(comparison))
    if hasattr(comparison.fair, "path_"):
        out.print(_path(comparison.fair))
    out.print(_certificate(comparison.fair))
    out.print()
    groups = comparison.group_table()
    if groups:
        out.print(_served(groups))
    out.print(_contrasts(comparison.fair.contrasts_))


def _summary(comparison: Comparison) -> Table:
    fair, plain = comparison.fair, comparison.plain
    d = len(fair.components_)
    table = new_table(f"Fair PCA against plain PCA, {d} component{'s' if d > 1 else ''} each")
    table.add_column("")
    table.add_column("plain PCA", justify="right")
    table.add_column("fair PCA", justify="right", style="bold")
    new = comparison.held_out
    if new is not None:
        table.add_column("on new rows", justify="right")
    table.add_column("meaning", style="dim")
    kept = [100 * float(fit.explained_variance_ratio_.sum()) for fit in (plain, fair)]
    kept += [] if new is None else [100 * new["variance"]]
    table.add_row(
        "variance kept", *(f"{share:.2f} %" for share in kept), "share of the total variance"
    )
    for key, before, after, meaning in (
        ("mean_gap", plain.mean_gap_, fair.mean_gap_, "largest distance of group means"),
        ("cov_gap", plain.cov_gap_, fair.cov_gap_, "largest difference of covariances"),
    ):
        name = "mean gap" if key == "mean_gap" else "covariance gap"
        later = [] if new is None else [f"{format_number(new[key])} ± {new[f'{key}_std']:.2g}"]
        table.add_row(name, format_number(before), format_number(after, before), *later, meaning)
    if new is not None:
        table.caption = (
            f"New rows: fitted to all but one of {new['folds']} folds, measured on that one; "
            "mean ± deviation over the folds."
        )
        table.caption_justify = "left"
    return table


def _path(fair: Any) -> Table:
    table = new_table("Leakage along the path, and the variance it costs")
    for name in ("penalty", "variance kept", "leakage (R²)", "Δ on unseen rows", "", "note"):
        table.add_column(name, justify="left" if name == "note" else "right")
    for penalty, variance, leakage, delta, error, chosen in zip(*fair.path_.values(), strict=True):
        cells = (f"{penalty:.3f}", f"{100 * variance:.2f} %", f"{leakage:.3f}", f"{delta:.3f}")
        note, style = ("chosen", "bold") if chosen else ("", None)
        table.add_row(*cells, f"± {error:.3f}", note, style=style)
    table.caption = f"Chance alone stays below {fair.delta_chance_:.3f} in 95 of 100 cases."
    table.caption_justify = "left"
    return table


def _served(groups: dict[str, list[Any]]) -> Table:
    table = new_table("Variance that each group keeps, and loses against its own best")
    has_strata = any(stratum is not None for stratum in groups["stratum"])
    for name in ("attribute", "group", "stratum") if has_strata else ("attribute", "group"):
        table.add_column(name, overflow="fold", min_width=len(name))
    for name in ("rows", "own best", "plain PCA", "loss", "fair PCA", "loss", "weight"):
        table.add_column(name, justify="right", no_wrap=True)
    worst = max(groups["loss"])
    for row in zip(*groups.values(), strict=True):
        entry = dict(zip(groups, row, strict=True))
        cells = [shown(entry["attribute"] or "–"), shown(entry["group"])]
        if has_strata:
            cells.append(shown(entry["stratum"]))
        cells.append(str(entry["n_rows"]))
        for name in ("best", "variance_plain", "loss_plain", "variance", "loss", "weight"):
            cells.append(format_number(entry[name], entry["best"]))
        table.add_row(*cells, style="bold" if entry["loss"] == worst > 0 else None)
    table.caption = "weight: share of the group in the bound" + (
        "; –: too few rows to count.\n" if None in groups["weight"] else ".\n"
    )
    table.caption_justify = "left"
    return table


def _certificate(fair: Any) -> str:
    certificate = fair.certificate_
    # 6 digits, so that a bound just above the objective does not look equal to it.
    about = _ABOUT[certificate.criterion]
    figures = f"objective{about} {certificate.objective:.6g}, bound {certificate.bound:.6g}"
    if not fair.certify and certificate.solver in ("refined", "deflation"):
        return f"Certificate: not computed ({figures}, the bound without covariance term: loose)."
    if certificate.gap < 5e-7:
        proven = "optimal"
    else:
        proven = f"within {_percent(certificate.gap)} % of optimal"
    state = "" if certificate.converged else "; the relaxation was not solved to tol"
    return (
        f"Certificate: [bold]{proven}[/bold] ({figures}; no basis of as many components that "
        f"meets the constraints exceeds the bound{state})."
    )


def _percent(gap: float) -> str:
    return f"{100 * gap:.2f}" if gap >= 1e-4 else f"{100 * gap:.1g}"


def _contrasts(contrasts: dict[str, list[Any]]) -> Table:
    table = new_table("Gaps in all features, and left in the fair components")
    has_strata = any(stratum is not None for stratum in contrasts["stratum"])
    has_notes = any(status != "compared" for status in contrasts["status"])
    # Folded where the terminal is narrow: a name cut short could be another group's.
    for name in ("attribute", "groups", "stratum") if has_strata else ("attribute", "groups"):
        table.add_column(name, overflow="fold", min_width=len(name))
    for name in ("rows", "mean gap", "left", "cov. gap", "left"):
        table.add_column(name, justify="right", no_wrap=True)
    if has_notes:
        table.add_column("note", overflow="fold")
    for row in zip(*contrasts.values(), strict=True):
        entry = dict(zip(contrasts, row, strict=True))
        cells = [shown(entry["attribute"]), shown(_groups(entry))]
        if has_strata:
            cells.append(shown(entry["stratum"] or "all rows"))
        cells += [_sizes(entry)]
        for before, after in (("mean_gap_before", "mean_gap"), ("cov_gap_before", "cov_gap")):
            cells += [format_number(entry[before]), format_number(entry[after], entry[before])]
        if has_notes:
            cells.append("" if entry["status"] == "compared" else shown(entry["status"]))
        table.add_row(*cells)
    return table


def _groups(entry: dict[str, Any]) -> str:
    if not entry["negative"]:
        return str(entry["positive"])
    return f"{entry['positive']} vs {entry['negative']}"


def _sizes(entry: dict[str, Any]) -> str:
    if not entry["negative"]:
        return str(entry["n_positive"])
    return f"{entry['n_positive']} / {entry['n_negative']}"


def to_json(command: str, document: dict[str, Any]) -> str:
    """Write a document as ASCII JSON; NaN and infinity, which JSON does not have, become null.

    >>> from fairpca.cli._render import to_json
    >>> print(to_json("fit", {"gap": float("inf")}).split(",")[-1])
      "gap": null
    }
    """
    whole = {"fairpca": __version__, "command": command, **document}
    return json_text(whole)
