"""The result of a fit as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairpca.cli._compare import Comparison

# Below this, relative to the gap of plain PCA, a gap is rounding and printed as 0.
_ROUNDING = 1e-9


def console() -> Console:
    """Return a console on standard output.

    Returns
    -------
    rich.console.Console
        As wide as the terminal; wide enough for any table where output goes to a file or a pipe.
    """
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def format_number(value: float | None, scale: float | None = None) -> str:
    """Print a gap with four digits.

    Parameters
    ----------
    value : float or None
        The gap; None: there is none.
    scale : float, optional
        A gap that is rounding against this is printed as 0.

    Returns
    -------
    str
        The text.

    Examples
    --------
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
    """Return an empty table in the style of all tables.

    Parameters
    ----------
    title : str
        Shown above it.

    Returns
    -------
    rich.table.Table
        The table.
    """
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def print_fit(comparison: Comparison, heading: Sequence[str]) -> None:
    """Print the comparison with plain PCA and one row for each contrast.

    Parameters
    ----------
    comparison : Comparison
        The fair and the plain fit.
    heading : sequence of str
        Lines that say what the data are.
    """
    out = console()
    for line in heading:
        out.print(escape(line))
    out.print()
    out.print(_summary(comparison))
    out.print(_certificate(comparison.fair))
    out.print()
    out.print(_contrasts(comparison.fair.contrasts_))


def _summary(comparison: Comparison) -> Table:
    fair, plain = comparison.fair, comparison.plain
    d = len(fair.components_)
    table = new_table(f"Fair PCA against plain PCA, {d} component{'s' if d > 1 else ''} each")
    table.add_column("")
    table.add_column("plain PCA", justify="right")
    table.add_column("fair PCA", justify="right", style="bold")
    table.add_column("meaning", style="dim")
    kept = [100 * float(fit.explained_variance_ratio_.sum()) for fit in (plain, fair)]
    table.add_row(
        "variance kept", *(f"{share:.2f} %" for share in kept), "share of the total variance"
    )
    table.add_row(
        "mean gap",
        format_number(plain.mean_gap_),
        format_number(fair.mean_gap_, plain.mean_gap_),
        "largest distance of group means",
    )
    table.add_row(
        "covariance gap",
        format_number(plain.cov_gap_),
        format_number(fair.cov_gap_, plain.cov_gap_),
        "largest difference of covariances",
    )
    return table


def _certificate(fair: Any) -> str:
    certificate = fair.certificate_
    # 6 digits, so that a bound just above the objective does not look equal to it.
    figures = f"objective {certificate.objective:.6g}, bound {certificate.bound:.6g}"
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
        cells = [escape(entry["attribute"]), escape(_groups(entry))]
        if has_strata:
            cells.append(escape(entry["stratum"] or "all rows"))
        cells += [_sizes(entry)]
        for before, after in (("mean_gap_before", "mean_gap"), ("cov_gap_before", "cov_gap")):
            cells += [format_number(entry[before]), format_number(entry[after], entry[before])]
        if has_notes:
            cells.append("" if entry["status"] == "compared" else escape(entry["status"]))
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
