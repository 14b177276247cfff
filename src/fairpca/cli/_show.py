"""The results of a fit and of an audit as tables in a terminal, and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairpca import __version__
from fairpca._files import to_json as json_text
from fairpca._present import (
    interval,
    label,
    number,
    optimality,
    p_value,
    percent,
    records,
    share,
    shorten,
    visible,
)
from fairpca.cli._show_sparse import print_sparse, sparse_certificate

# Columns of text; all others hold figures.
_TEXT = {"", "component", "feature", "attribute", "group", "groups", "stratum", "pair", "family", "method", "adversary",
         "rate of", "largest for", "meaning", "note"}  # fmt: skip
_OBJECTIVES = {
    "total": "",
    "worst-variance": " (of the group that keeps least, less the penalty)",
    "worst-loss": " (minus the largest loss of a group, less the penalty)",
}
_FAMILIES = {"linear": "half-spaces", "rbf": "Gaussian SVM", "cdf": "orthants (KS)"}


def to_json(command: str, document: dict[str, Any]) -> str:
    """Write a document as ASCII JSON; NaN and infinity, which JSON does not have, become null.

    >>> from fairpca.cli._show import to_json
    >>> print(to_json("fit", {"gap": float("inf")}).split(",")[-1])
      "gap": null
    }
    """
    return json_text({"fairpca": __version__, "command": command, **document})


def _open_console(heading: Sequence[str]) -> Console:
    """Return a console that has said what the data are; wide enough for any table in a file."""
    out = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    for line in heading:
        out.print(escape(visible(line)))
    out.print()
    return out


def _table(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    caption: str = "",
    strong: Callable[[int], bool] = lambda place: False,
) -> Table:
    """Arrange cells; text is folded where the terminal is narrow, since a cut name may mislead."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in head:
        if name in _TEXT:
            style = "dim" if name == "meaning" else None
            table.add_column(name, overflow="fold", min_width=len(name), style=style)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for place, cells in enumerate(rows):
        shown = (escape(shorten("" if cell is None else cell)) for cell in cells)
        table.add_row(*shown, style="bold" if strong(place) else None)
    if caption:
        table.caption, table.caption_justify = caption, "left"
    return table


def print_fit(
    fair: Any,
    plain: Any,
    held_out: dict[str, Any] | None,
    groups: dict[str, list[Any]],
    heading: Sequence[str],
) -> None:
    """Print the comparison with plain PCA, the certificate, and one row for each contrast."""
    out = _open_console(heading)
    out.print(_comparison(fair, plain, held_out))
    if hasattr(fair, "balance_"):
        print_sparse(fair, out, _table)
    elif hasattr(fair, "path_"):
        out.print(_path(fair))
    out.print(sparse_certificate(fair) if hasattr(fair, "balance_") else _certificate(fair))
    out.print()
    if groups:
        out.print(_group_losses(groups))
    out.print(_contrasts(records(fair.contrasts_)))


def _comparison(fair: Any, plain: Any, held_out: dict[str, Any] | None) -> Table:
    d = len(fair.components_)
    kept = [float(fit.explained_variance_ratio_.sum()) for fit in (plain, fair)]
    orthogonal = not hasattr(fair, "balance_")
    rows = [
        ["variance kept", *map(percent, kept), "share of the total variance" if orthogonal else
         "share of the table that a regression on the scores explains"],
        ["mean gap", number(plain.mean_gap_), number(fair.mean_gap_, plain.mean_gap_),
         "largest distance of group means"],
        ["covariance gap", number(plain.cov_gap_), number(fair.cov_gap_, plain.cov_gap_),
         "largest difference of covariances"],
    ]  # fmt: skip
    head, caption = ["", "plain PCA", "fair PCA", "meaning"], ""
    if held_out is not None:
        head.insert(3, "held-out rows")
        rows[0].insert(3, percent(held_out["variance"]))
        for row, name in zip(rows[1:], ("mean_gap", "cov_gap"), strict=True):
            row.insert(3, f"{number(held_out[name])} ± {number(held_out[f'{name}_std'])}")
        caption = (
            f"Held-out rows: fitted to all but one of {held_out['folds']} folds, measured on that "
            "one; mean ± standard deviation over the folds."
        )
    title = f"Fair PCA against plain PCA, {d} component{'s' if d > 1 else ''} each"
    return _table(title, head, rows, caption)


def _path(fair: Any) -> Table:
    path = records(fair.path_)
    rows = [
        (number(point["penalty"]), percent(point["variance"]), number(point["leakage"]),
         share(point["delta"]), f"± {share(point['delta_error'])}",
         "chosen" if point["chosen"] else "")
        for point in path
    ]  # fmt: skip
    head = ("penalty", "variance kept", "leakage (R²)", "Δ on held-out rows", "error", "note")
    return _table(
        "Leakage along the path, and the variance it costs",
        head,
        rows,
        "Δ: difference in selection rates of two groups. Chance alone stays below "
        f"{share(fair.delta_chance_)} in 95 of 100 cases.",
        lambda place: bool(path[place]["chosen"]),
    )


def _certificate(fair: Any) -> str:
    certificate = fair.certificate_
    figures = (
        f"objective{_OBJECTIVES[certificate.criterion]} {number(certificate.objective)}, "
        f"bound {number(certificate.bound)}"
    )
    if not fair.certify and certificate.solver in ("refined", "deflation"):
        return f"Certificate: not computed ({figures}; the bound ignores covariances and is loose)."
    state = "" if certificate.converged else " The relaxation was not solved to tol."
    return (
        f"Certificate: [bold]{optimality(certificate.gap)}[/bold] ({figures}). No other set of "
        f"this many components that satisfies the constraints can exceed the bound.{state}"
    )


def _group_losses(groups: dict[str, list[Any]]) -> Table:
    with_strata = any(stratum is not None for stratum in groups["stratum"])
    names = ("attribute", "group", "stratum") if with_strata else ("attribute", "group")
    figures = ("best", "variance_plain", "loss_plain", "variance", "loss", "weight")
    rows = [
        [*(entry[name] for name in names), entry["n_rows"],
         *(number(entry[name], entry["best"]) for name in figures)]
        for entry in records(groups)
    ]  # fmt: skip
    worst = max(groups["loss"])
    return _table(
        "Variance that each group keeps, and loses",
        (*names, "rows", "own best", "plain PCA", "loss", "fair PCA", "loss", "weight"),
        rows,
        "Loss: the extra variance this group would keep with components fitted to it alone.\n"
        "Weight: share of the group in the bound; –: too few rows to count.\n",
        lambda place: groups["loss"][place] == worst > 0,
    )


def _contrasts(contrasts: list[dict[str, Any]]) -> Table:
    with_strata = any(entry["stratum"] is not None for entry in contrasts)
    with_notes = any(entry["status"] != "compared" for entry in contrasts)
    head = ["attribute", "groups", *(["stratum"] if with_strata else []), "rows"]
    head += ["mean gap", "left", "cov. gap", "left", *(["note"] if with_notes else [])]
    rows = []
    for entry in contrasts:
        cells = [entry["attribute"], label("", entry["positive"], entry["negative"])]
        cells += [entry["stratum"] or "all rows"] if with_strata else []
        sizes = (entry["n_positive"], entry["n_negative"])[: 2 if entry["negative"] else 1]
        cells.append(" / ".join(map(str, sizes)))
        for before, after in (("mean_gap_before", "mean_gap"), ("cov_gap_before", "cov_gap")):
            cells += [number(entry[before]), number(entry[after], entry[before])]
        if with_notes:
            cells.append("" if entry["status"] == "compared" else entry["status"])
        rows.append(cells)
    return _table("Gaps in all features, and left in the fair components", head, rows)


def print_audit(report: dict[str, Any], heading: Sequence[str]) -> None:
    """Print families with null and bound, adversaries, the worst, gaps, pairs and decisions."""
    out = _open_console(heading)
    if report["delta"]:
        out.print(_families(report))
    if report["adversaries"]:
        out.print(_adversaries(report))
    for line in _sentences(report):
        out.print(line)
    out.print()
    out.print(_gaps(report))
    if report["delta"] and len(report["delta"][0]["pairs"]) > 1:
        out.print(_pairs(report["delta"]))
    if report["losses"] is not None:
        out.print(_losses(report["losses"]))
    if report["decisions"] is not None:
        out.print(_decisions(report["decisions"]))


def _pair(entry: dict[str, Any]) -> str:
    other, group = entry["groups"]
    return label(entry["attribute"], group, other, entry["stratum"])


def _families(report: dict[str, Any]) -> Table:
    level = f"{100 * report['confidence']:g} %"
    rows = [
        (_FAMILIES[entry["family"]], entry["method"],
         *(share(entry[name]) for name in ("value", "null_mean", "null_quantile")),
         p_value(entry["p_value"]), share(entry["held_out"] and entry["held_out"]["value"]),
         "≥ 1" if (entry["bound"] or 0) >= 1 else share(entry["bound"]), _pair(entry))
        for entry in report["delta"]
    ]  # fmt: skip
    whole = any(entry["bound_of"] == "family" for entry in report["delta"])
    caption = (
        "Δ: difference in selection rates of two groups (0: equal, 1: the groups are separated).\n"
        "null: mean and 95 % quantile of Δ when the groups are permuted.\n"
        f"{level} limit: upper limit for this classifier on new data"
        + (", or with method exact for any classifier of its family.\n" if whole else ".\n")
    )
    head = ("family", "method", "Δ", "null", "null 95 %", "p", "held out", f"{level} limit",
            "largest for")  # fmt: skip
    return _table("How well classifiers predict the group", head, rows, caption)


def _adversaries(report: dict[str, Any]) -> Table:
    """Show each adversary at its strongest."""
    rows = [
        (entry["adversary"], share(entry["held_out"]["value"]),
         interval(entry["held_out"]["low"], entry["held_out"]["high"]), _pair(entry))
        for entry in report["by_adversary"]
    ]  # fmt: skip
    level = f"{100 * report['confidence']:g} % interval"
    head = ("adversary", "Δ on held-out rows", level, "largest for")
    title = "Adversaries: trained on one half of the rows, measured on the other"
    return _table(title, head, rows)


def _sentences(report: dict[str, Any]) -> Iterator[str]:
    """Yield the headline, and who is left out of it."""
    worst = report["headline"]
    if worst is not None:
        new = worst["held_out"]
        yield (
            f"Worst on held-out rows: [bold]{share(new['value'])}[/bold] "
            f"({interval(new['low'], new['high'])}), {worst['by']}, "
            f"{escape(shorten(worst['pair']))}."
        )
        if worst["n_compared"] > 1:
            yield (
                f"It is the worst of {worst['n_compared']} comparisons. Its interval is wider than "
                f"those above, so that with {100 * new['confidence']:g} % confidence the intervals "
                "of all comparisons hold together."
            )
    if report["small_groups"]:
        named = [f"{g['attribute']}={g['group']} ({g['n_rows']})" for g in report["small_groups"]]
        every = worst is not None and worst["small"]
        why = "and no comparison without them" if every else "listed but never the worst"
        yield f"Fewer than {report['min_group']} rows, {why}: {escape(shorten(', '.join(named)))}"
    for name, count in report["unknown"].items():
        yield f"Unknown group, left out: {count} rows ({escape(shorten(name))})."


def _gaps(report: dict[str, Any]) -> Table:
    rows = [
        (name, "none" if report[key] is None else number(report[key]), meaning)
        for key, name, meaning in (
            ("mean_gap", "mean gap", "distance of group means"),
            ("cov_gap", "covariance gap", "difference of covariances"),
            ("mmd2", "MMD²", "kernel distance, Gaussian kernel"),
            ("gaussian_bound", "Gaussian bound", "of Δ for half-spaces, if groups were normal"),
        )
    ]
    title = "Largest gaps between groups, in the units of the columns"
    return _table(title, ("", "value", "meaning"), rows)


def _pairs(delta: list[dict[str, Any]]) -> Table:
    names = [f"{_FAMILIES[entry['family']]}, {entry['method']}" for entry in delta]
    rows = [
        (_pair(pair), f"{pair['n_rows'][1]} / {pair['n_rows'][0]}",
         *(share(entry["pairs"][place]["value"]) for entry in delta))
        for place, pair in enumerate(delta[0]["pairs"])
    ]  # fmt: skip
    return _table("Δ of every pair of groups", ("pair", "rows", *names), rows)


def _losses(losses: dict[str, list[Any]]) -> Table:
    """Show what each group keeps of the columns that the features represent."""
    rows = [
        (label(entry["attribute"], entry["group"], "", entry["stratum"]), entry["n_rows"],
         *(number(entry[name]) for name in ("total", "variance", "best", "loss")))
        for entry in records(losses)
    ]  # fmt: skip
    head = ("group", "rows", "variance", "kept", "own best", "loss")
    return _table("What each group keeps and loses of --original", head, rows)


def _decisions(decisions: dict[str, Any]) -> Table:
    rows = [
        (entry["measure"], label(entry["attribute"], entry["group"]), entry["n_rows"],
         percent(entry["rate"]), interval(entry["rate_low"], entry["rate_high"], percent),
         percent(entry["difference"]), share(entry["impact_ratio"]),
         interval(entry["ratio_low"], entry["ratio_high"]), entry["left_out"])
        for entry in decisions["rates"]
    ]  # fmt: skip
    head = ("rate of", "group", "rows", "rate", "interval", "difference", "impact ratio",
            "interval", "note")  # fmt: skip
    return _table(
        "Decisions: how often each group is selected",
        head,
        rows,
        "Compared with the group of the highest rate. Unknown groups are left out.",
    )
