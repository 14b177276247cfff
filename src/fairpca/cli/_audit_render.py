"""The result of an audit as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from fairpca.cli._render import console, format_number, new_table

_NAMES = {"linear": "half-spaces", "rbf": "Gaussian SVM", "cdf": "orthants (KS)"}


def print_audit(report: dict[str, Any], heading: Sequence[str]) -> None:
    """Print every family with null and bound, then the gaps, then every comparison.

    Parameters
    ----------
    report : dict
        As `fairpca.metrics.AuditReport.to_dict` returns it.
    heading : sequence of str
        Lines that say what the data are.
    """
    out = console()
    for line in heading:
        out.print(escape(line))
    out.print()
    out.print(_families(report))
    out.print(
        "null: mean Δ, and its 95 % quantile, when the groups are permuted. held out: on rows not "
        "trained on.\nbound: of the true Δ; 1 or more says nothing."
    )
    out.print()
    out.print(_gaps(report))
    if len(report["delta"][0]["comparisons"]) > 1:
        out.print(_comparisons(report["delta"]))


def _families(report: dict[str, Any]) -> Table:
    table = new_table("Δ: how well classifiers tell the groups apart (0: not at all, 1: fully)")
    table.add_column("family")
    table.add_column("method")
    confidence = f"{100 * report['confidence']:g} % bound"
    for name in ("Δ", "null", "null 95 %", "p", "held out", confidence):
        style = "bold" if name == "Δ" else None
        table.add_column(name, justify="right", no_wrap=True, style=style)
    table.add_column("largest for", overflow="fold")
    for entry in report["delta"]:
        figures = ("value", "null_mean", "null_quantile", "p_value", "cross_fit_value")
        table.add_row(
            _NAMES[entry["family"]],
            entry["method"],
            *(_share(entry[name]) for name in figures),
            _bound(entry["bound"]),
            escape(_label(entry)),
        )
    return table


def _gaps(report: dict[str, Any]) -> Table:
    table = new_table("Largest gaps between groups, in the units of the columns")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("meaning", style="dim")
    bound = report["gaussian_bound"]
    table.add_row("mean gap", format_number(report["mean_gap"]), "distance of group means")
    table.add_row("covariance gap", format_number(report["cov_gap"]), "difference of covariances")
    table.add_row("MMD²", format_number(report["mmd2"]), "kernel distance, Gaussian kernel")
    table.add_row(
        "Gaussian bound",
        "none" if bound is None else format_number(bound),
        "of Δ for half-spaces, if the groups were normal",
    )
    return table


def _comparisons(delta: list[dict[str, Any]]) -> Table:
    table = new_table("Δ of every pair of groups")
    first = delta[0]["comparisons"]
    table.add_column("pair", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    for entry in delta:
        name = f"{_NAMES[entry['family']]}, {entry['method']}"
        table.add_column(name, justify="right")
    for index, pair in enumerate(first):
        values = (entry["comparisons"][index]["value"] for entry in delta)
        rows = f"{pair['n_rows'][1]} / {pair['n_rows'][0]}"
        table.add_row(escape(_label(pair)), rows, *map(_share, values))
    return table


def _label(entry: dict[str, Any]) -> str:
    text = f"{entry['attribute']}: {entry['groups'][1]} vs {entry['groups'][0]}"
    stratum = ", ".join(f"{name}={value}" for name, value in entry["stratum"].items())
    return f"{text} | {stratum}" if stratum else text


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _bound(value: float | None) -> str:
    if value is None:
        return "–"
    return "≥ 1" if value >= 1 else f"{value:.3f}"
