"""The result of an audit as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from fairpca.cli._render import format_number, new_console, new_table, shown

_LISTED = "listed but never the worst: "
_FAMILIES = {"linear": "half-spaces", "rbf": "Gaussian SVM", "cdf": "orthants (KS)"}


def print_audit(report: dict[str, Any], heading: Sequence[str]) -> None:
    """Print families with null and bound, adversaries, the worst, gaps, every pair, decisions."""
    out = new_console(heading)
    if report["delta"]:
        out.print(_deltas(report))
        whole = any(entry["bound_of"] == "family" for entry in report["delta"])
        out.print(
            "null: mean Δ, and its 95 % quantile, when the groups are permuted. held out: on rows "
            "not trained on.\nbound: of what the same classifier attains on new rows"
            + (", or with method exact any classifier of its family." if whole else ".")
        )
        out.print()
    if report["adversaries"]:
        out.print(_adversaries(report))
    for line in _sentences(report):
        out.print(line)
    out.print()
    out.print(_audit_gaps(report))
    if report["delta"] and len(report["delta"][0]["comparisons"]) > 1:
        out.print(_pairs(report["delta"]))
    if report["losses"] is not None:
        out.print(_losses(report["losses"]))
    if report["decisions"] is not None:
        out.print(_decisions(report["decisions"]))


def _adversaries(report: dict[str, Any]) -> Table:
    """Show each adversary at its strongest."""
    table = new_table("Adversaries: trained on one half of the rows, measured on the other")
    table.add_column("adversary")
    table.add_column("Δ on new rows", justify="right", style="bold")
    table.add_column(f"{100 * report['confidence']:g} % interval", justify="right")
    table.add_column("largest for", overflow="fold")
    for entry in report["by_adversary"]:
        new = entry["held_out"]
        span = f"{new['low']:.3f} to {new['high']:.3f}"
        table.add_row(entry["adversary"], _share(new["value"]), span, shown(_label(entry)))
    return table


def _sentences(report: dict[str, Any]) -> Iterator[str]:
    """Yield the headline, and who is left out of it."""
    worst = report["headline"]
    if worst is not None:
        new = worst["held_out"]
        yield (
            f"Worst on rows not trained on: [bold]{_share(new['value'])}[/bold] "
            f"({new['low']:.3f} to {new['high']:.3f}), {worst['by']}, {shown(worst['pair'])}."
        )
        if worst["n_compared"] > 1:
            yield (
                f"It is the worst of {worst['n_compared']} comparisons: with "
                f"{100 * new['confidence']:g} % confidence the intervals of all of them hold at "
                "once, so this one is wider than those above."
            )
    if report["small_groups"]:
        named = [f"{g['attribute']}={g['group']} ({g['n_rows']})" for g in report["small_groups"]]
        few = f"Fewer than {report['min_group']} rows, "
        few += "and no comparison without them: " if _all_small(worst) else _LISTED
        yield few + shown(", ".join(named))
    for name, count in report["unknown"].items():
        yield f"Unknown group, left out: {count} rows ({shown(name)})."


def _all_small(worst: dict[str, Any] | None) -> bool:
    return worst is not None and worst["small"]


def _decisions(decisions: dict[str, Any]) -> Table:
    table = new_table("Decisions: how often each group is selected")
    table.add_column("rate of")
    table.add_column("group", overflow="fold")
    for name in ("rows", "rate", "interval", "difference", "impact ratio", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    for entry in decisions["rates"]:
        table.add_row(
            entry["measure"],
            shown(f"{entry['attribute']}: {entry['group']}"),
            str(entry["n_rows"]),
            _share(entry["rate"]),
            _span(entry["rate_low"], entry["rate_high"]),
            _share(entry["difference"]),
            _share(entry["impact_ratio"]),
            _span(entry["ratio_low"], entry["ratio_high"]),
            shown(entry["left_out"]),
        )
    table.caption = "Compared with the group of the highest rate. Unknown groups are left out."
    table.caption_justify = "left"
    return table


def _span(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _deltas(report: dict[str, Any]) -> Table:
    table = new_table("Δ: how well classifiers tell the groups apart (0: not at all, 1: fully)")
    table.add_column("family")
    table.add_column("method")
    confidence = f"{100 * report['confidence']:g} % bound"
    for name in ("Δ", "null", "null 95 %", "p", "held out", confidence):
        style = "bold" if name == "Δ" else None
        table.add_column(name, justify="right", no_wrap=True, style=style)
    table.add_column("largest for", overflow="fold")
    for entry in report["delta"]:
        new = entry["held_out"]
        table.add_row(
            _FAMILIES[entry["family"]],
            entry["method"],
            *(_share(entry[name]) for name in ("value", "null_mean", "null_quantile")),
            "<0.001" if (entry["p_value"] or 1.0) < 0.0005 else _share(entry["p_value"]),
            _share(None if new is None else new["value"]),  # of the classifier that is bounded
            _bound(entry["bound"]),
            shown(_label(entry)),
        )
    return table


def _audit_gaps(report: dict[str, Any]) -> Table:
    table = new_table("Largest gaps between groups, in the units of the columns")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("meaning", style="dim")
    for key, name, meaning in (
        ("mean_gap", "mean gap", "distance of group means"),
        ("cov_gap", "covariance gap", "difference of covariances"),
        ("mmd2", "MMD²", "kernel distance, Gaussian kernel"),
        ("gaussian_bound", "Gaussian bound", "of Δ for half-spaces, if the groups were normal"),
    ):
        value = report[key]
        table.add_row(name, "none" if value is None else format_number(value), meaning)
    return table


def _losses(losses: dict[str, list[Any]]) -> Table:
    """Show what each group keeps of the columns that the features represent."""
    table = new_table("What each group keeps and loses of --original")
    table.add_column("group", overflow="fold")
    for name in ("rows", "variance", "kept", "own best", "loss"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in zip(*losses.values(), strict=True):
        entry = dict(zip(losses, row, strict=True))
        stratum = "" if entry["stratum"] is None else f" | {entry['stratum']}"
        figures = (format_number(entry[name]) for name in ("total", "variance", "best", "loss"))
        label = f"{entry['attribute']}: {entry['group']}{stratum}"
        table.add_row(shown(label), str(entry["n_rows"]), *figures)
    return table


def _pairs(delta: list[dict[str, Any]]) -> Table:
    table = new_table("Δ of every pair of groups")
    first = delta[0]["comparisons"]
    table.add_column("pair", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    for entry in delta:
        name = f"{_FAMILIES[entry['family']]}, {entry['method']}"
        table.add_column(name, justify="right")
    for index, pair in enumerate(first):
        values = (entry["comparisons"][index]["value"] for entry in delta)
        rows = f"{pair['n_rows'][1]} / {pair['n_rows'][0]}"
        table.add_row(shown(_label(pair)), rows, *map(_share, values))
    return table


def _label(entry: dict[str, Any]) -> str:
    text = f"{entry['attribute']}: {entry['groups'][1]} vs {entry['groups'][0]}"
    stratum = ", ".join(f"{name}={value}" for name, value in entry["stratum"].items())
    return f"{text} | {stratum}" if stratum else text


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _bound(value: float | None) -> str:
    return "≥ 1" if value is not None and value >= 1 else _share(value)
