"""The results of a fit and of an audit as tables in a terminal, and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairpca import __version__
from fairpca._choices import MIN_ROWS
from fairpca._files import to_json as json_text
from fairpca._present import (
    NOTHING,
    TOO_FEW,
    certificate_text,
    delta_request,
    interval,
    label,
    number,
    p_value,
    percent,
    points,
    points_text,
    records,
    share,
    share_of_variance,
    shorten,
    visible,
    with_error,
)
from fairpca.moments.contrasts import ContrastTable

# Columns of text; all others hold figures.
_TEXT = {"", "attribute", "group", "groups", "stratum", "pair", "statistic", "adversary",
         "rate of", "largest for", "meaning", "note", "component", "feature"}  # fmt: skip
_PERSONS = f"fewer than {MIN_ROWS} rows: nearly single persons"
_MOST_BALANCES = 3  # columns of them
# Of the columns of a path: their heads, and how values are written.
_Columns = dict[str, tuple[str, Callable[[Any], str]]]
_DELTA_PATH: _Columns = {
    "penalty": ("penalty", number),
    "variance": ("variance kept", percent),
    "leakage": ("leakage (R²)", number),
    "delta": ("Δ in points", points),
    "delta_error": ("error", lambda error: f"± {points(error)}"),
}
_SPARSE_PATH: _Columns = {
    "n_nonzero": ("loadings", str),
    "explained_variance_ratio": ("variance explained", percent),
    "whitened_cov_gap": ("whitened covariance gap", number),
}


def to_json(command: str, document: dict[str, Any]) -> str:
    """Write a document as ASCII JSON; NaN and infinity, which JSON does not have, become null."""
    return json_text({"fairpca": __version__, "command": command, **document})


def _print(heading: Sequence[str], *parts: Table | str | None) -> None:
    """Print what the data are, then tables and lines; wide enough for any table in a file."""
    out = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    for part in (*(escape(visible(line)) for line in heading), "", *parts):
        if part is not None:
            out.print(part)


def _table(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    caption: str | None = None,
    strong: Callable[[int], bool] = lambda place: False,
) -> Table:
    """Arrange cells without the columns that are empty; text is folded, a cut name may mislead."""
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, pad_edge=False)
    table.title_justify = table.caption_justify = "left"
    rows = list(rows)
    used = [any(cell not in (None, "") for cell in column) for column in zip(*rows, strict=True)]
    for name in compress(head, used):
        if name in _TEXT:
            style = "dim" if name == "meaning" else None
            table.add_column(name, overflow="fold", min_width=len(name), style=style)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for place, cells in enumerate(rows):
        shown = (escape(shorten("" if cell is None else cell)) for cell in compress(cells, used))
        table.add_row(*shown, style="bold" if strong(place) else None)
    return table


def print_fit(
    fair: Any,
    plain: Any,
    held_out: dict[str, Any] | None,
    expected: dict[str, Any] | None,
    groups: dict[str, list[Any]],
    heading: Sequence[str],
) -> None:
    """Print the comparison with plain PCA, the certificate, and one row for each contrast."""
    of = " (fitted rows)" if "n_rows" in (held_out or {}) else ""
    _print(
        heading,
        _comparison(fair, plain, held_out),
        _path(fair) if hasattr(fair, "path_") else None,
        _loadings(fair) if hasattr(fair, "balance_") else None,
        _target(fair, held_out) if fair.target_weight else None,
        escape(certificate_text(fair)),
        f"{expected['text'] if expected else ''}\n",
        _group_losses(groups, of) if groups else None,
        _contrasts(fair.contrasts_, of),
    )


def _comparison(fair: Any, plain: Any, held_out: dict[str, Any] | None) -> Table:
    d = len(fair.components_)
    kept = (percent(float(fit.explained_variance_ratio_.sum())) for fit in (plain, fair))
    held = held_out or {}
    variance = [percent(held[f"{kind}variance"]) if held else None for kind in ("plain_", "")]
    rows = [("variance kept", *kept, *variance, None, share_of_variance(fair))]
    for name, key, meaning in (
        ("mean gap", "mean_gap", "largest distance of group means"),
        ("covariance gap", "cov_gap", "largest difference of covariances"),
    ):
        before, after = getattr(plain, f"{key}_"), getattr(fair, f"{key}_")
        gaps = [
            with_error(held[f"{kind}{key}"], held[f"{kind}{key}_error"]) if held else None
            for kind in ("plain_", "")
        ]
        chance = number(held[f"chance_{key}"]) if held else None
        rows.append((name, number(before), number(after, before), *gaps, chance, meaning))
    title = f"Fair PCA against plain PCA, {d} component{'s' if d > 1 else ''} each"
    how = f"fitted to all but one of {held.get('folds')} folds, measured on that one"
    how += f" (gaps: mean square of {held.get('rounds')} divisions into folds)"
    if "n_rows" in held:
        how = f"measured on {held['n_rows']} rows that were not fitted"
    caption = (
        f"Held-out: {how}, less the noise of so few rows; ± one standard error. By chance: what "
        "groups that do not differ would show on the same rows, in the fair components."
    )
    if any(NOTHING in map(str, row) for row in rows):
        caption += f" {NOTHING}: {TOO_FEW}."
    head = ("", "plain PCA", "fair PCA", "plain, held-out", "fair, held-out", "by chance",
            "meaning")  # fmt: skip
    return _table(title, head, rows, caption if held_out else None)


def _target(fair: Any, held_out: dict[str, Any] | None) -> Table:
    """Show how much of the target each choice of directions explains."""
    held, fitted = (held_out or {}).get("target", {}), fair.target_information_
    names = {
        "all": "all features",
        "fair": "all fair directions",
        "plain": "plain PCA",
        "without_target": "fair PCA without target",
        "components": "fair PCA with target",
    }
    rows = []
    for key, name in names.items():
        share_of = held.get(key)
        after = share_of and f"{percent(share_of['r2'])} ± {percent(share_of['error'])}"
        if key in fitted or after:
            rows.append((name, percent(fitted[key]) if key in fitted else None, after))
    columns = ", ".join(fair.moments_.targets)
    caption = (
        "Classifiers that are not linear may predict the group better than without the target: "
        "audit these components,\nfor example with fairpca report. A bias in the target is kept."
    )
    title = f"Variance of {escape(shorten(columns))} that a linear model on the components explains"
    return _table(title, ("", "fitted rows", "held-out rows"), rows, caption)


def _path(fair: Any) -> Table:
    """Show the points that a penalty, or a number of loadings, was chosen from."""
    columns, title, caption = _SPARSE_PATH, "What more non-zero loadings explain", None
    if hasattr(fair, "penalty_"):
        columns, title = _DELTA_PATH, "Leakage along the path, and the variance it costs"
        caption = (
            f"{delta_request(fair)} Δ: difference in selection rates of two groups, for "
            "classifiers trained on as many rows."
        )
    chosen = fair.path_["chosen"]
    cells = [map(write, fair.path_[name]) for name, (_, write) in columns.items()]
    notes = ("chosen" if this else "" for this in chosen)
    head = (*(name for name, _ in columns.values()), "note")
    return _table(title, head, zip(*cells, notes, strict=True), caption, chosen.__getitem__)


def _loadings(fair: Any) -> Table:
    """Show the loadings that are not zero, and which of them cancel a group difference."""
    compared = [entry for entry in records(fair.contrasts_) if entry["mean_gap"] is not None]
    labels = [f"balance {e['positive']} − {e['negative']}" for e in compared[:_MOST_BALANCES]]
    names = getattr(fair, "feature_names_in_", [f"x{i}" for i in range(fair.n_features_in_)])
    rows = []
    for j, component in enumerate(fair.components_):
        first = f"{j + 1} ({percent(fair.explained_variance_ratio_[j])})"
        for k in sorted(component.nonzero()[0], key=lambda k: -abs(component[k])):
            balances = (f"{x:+.3f}" for x in fair.balance_[: len(labels), j, k])
            rows.append((first, names[k], f"{component[k]:+.2f}", *balances))
            first = ""
    caption = "Balance: loading × group difference. It sums to zero where group means are equal."
    if len(compared) > len(labels):
        caption += f" {len(compared) - len(labels)} more contrasts are in the JSON document."
    head = ("component", "feature", "loading", *labels)
    return _table("What the components are made of", head, rows, caption)


def _group_losses(groups: dict[str, list[Any]], of: str) -> Table:
    names = ("attribute", "group", "stratum")
    figures = ("best", "variance_plain", "loss_plain", "variance", "loss", "weight")
    rows = [
        [*(entry[name] for name in names), entry["n_rows"],
         *(number(entry[name], entry["best"]) for name in figures),
         _PERSONS if entry["n_rows"] < MIN_ROWS else None]
        for entry in records(groups)
    ]  # fmt: skip
    worst = max(groups["loss"])
    return _table(
        f"Variance that each group keeps, and loses{of}",
        (*names, "rows", "own best", "plain PCA", "loss", "fair PCA", "loss", "weight", "note"),
        rows,
        "Loss: the extra variance this group would keep with components fitted to it alone.\n"
        "Weight: share of the group in the bound; –: too few rows to count.\n",
        lambda place: groups["loss"][place] == worst > 0,
    )


def _contrasts(table: ContrastTable, of: str) -> Table:
    contrasts = records(table)
    whole = "all rows" if any(entry["stratum"] for entry in contrasts) else ""
    head = (
        "attribute",
        "groups",
        "stratum",
        "rows",
        "mean gap",
        "left",
        "cov. gap",
        "left",
        "note",
    )
    rows = []
    for entry, small in zip(contrasts, table.small(), strict=True):
        sizes = (entry["n_positive"], entry["n_negative"])[: 2 if entry["negative"] else 1]
        gaps = []
        for before, after in (("mean_gap_before", "mean_gap"), ("cov_gap_before", "cov_gap")):
            gaps += [number(entry[before]), number(entry[after], entry[before])]
        groups = label("", entry["positive"], entry["negative"])
        note = "" if entry["status"] == "compared" else entry["status"]
        if small:
            note += f"{note and '; '}{_PERSONS}"
        stratum, counts = entry["stratum"] or whole, " / ".join(map(str, sizes))
        rows.append((entry["attribute"], groups, stratum, counts, *gaps, note))
    return _table(f"Gaps in all features, and left in the fair components{of}", head, rows)


def print_audit(report: dict[str, Any], heading: Sequence[str]) -> None:
    """Print adversaries, the largest, in-sample values, gaps, pairs and decisions."""
    audited, losses, decisions = report["representations"][0], report["losses"], report["decisions"]
    several = len(audited["held_out"]) > len(audited["by_adversary"])
    _print(
        heading,
        _adversaries(report, audited) if audited["held_out"] else None,
        *_sentences(report),
        "",
        _in_sample(audited) if audited["in_sample"] else None,
        _gaps(audited["gaps"]),
        _pairs(audited["held_out"]) if several else None,
        None if losses is None else _losses(losses),
        None if decisions is None else _decisions(decisions),
    )


def _points(entry: dict[str, Any]) -> str:
    return points_text(entry["estimate"], entry["low"], entry["high"])


def _adversaries(report: dict[str, Any], audited: dict[str, Any]) -> Table:
    """Show each adversary for the pair of its largest value."""
    rows = [
        (entry["adversary"], points(entry["estimate"]),
         interval(entry["low"], entry["high"], points),
         points(entry["chance"]), p_value(entry["p_value"]), entry["pair"])
        for entry in audited["by_adversary"]
    ]  # fmt: skip
    level = f"{100 * report['confidence']:g} % interval"
    head = ("adversary", "Δ on held-out rows", level, "chance 95 %", "p", "largest for")
    caption = (
        "Δ: difference in selection rates of two groups, in percentage points (0: equal, 100: the "
        "groups are separated).\nInterval, chance level and p allow for all comparisons; "
        f"{report['effort']['text']}."
    )
    title = "Adversaries: trained on one half of the rows, measured on the other"
    return _table(title, head, rows, caption)


def _in_sample(audited: dict[str, Any]) -> Table:
    rows = [
        (entry["statistic"],
         *(points(entry[name]) for name in ("value", "null_mean", "null_quantile")),
         p_value(entry["p_value"]), entry["measured_rows"], entry["pair"])
        for entry in audited["in_sample"]
    ]  # fmt: skip
    head = ("statistic", "Δ", "null", "null 95 %", "p", "rows", "largest for")
    caption = "null: mean and 95 % quantile of Δ when the groups of these rows are permuted."
    return _table("In-sample: Δ on the rows a classifier is fitted to", head, rows, caption)


def _sentences(report: dict[str, Any]) -> Iterator[str]:
    """Yield the headline, the verdict, and who is left out of it."""
    worst, verdict = report["headline"], report["verdict"]
    if worst is not None:
        yield (
            f"Largest on held-out rows: [bold]{_points(worst)}[/bold], {worst['adversary']}, "
            f"{escape(shorten(worst['pair']))}."
        )
        if worst["n_compared"] > 1:
            yield (
                f"Its interval is of the largest true value of all {worst['n_compared']} "
                "comparisons; other groups may set its upper limit."
            )
    for other, change in zip(report["representations"][1:], report["differences"], strict=False):
        before, name = other["headline"], escape(shorten(change["against"]))
        yield (
            f"{name}, on the same rows: {_points(before)}, {before['adversary']}, "
            f"{escape(shorten(before['pair']))}."
        )
        yield f"{change['of']} − {name}: [bold]{_points(change)}[/bold]."
    yield f"Verdict: [bold]{verdict['word']}[/bold] ({verdict['reason']})."
    for entry in report["representations"][0]["undecided"]:
        pair, high = escape(shorten(entry["pair"])), points(entry["high"])
        yield f"Too few rows to say: {pair} (up to {high} points)."
    for entry in report["missing"]:
        pair = escape(shorten(entry["pair"]))
        yield f"Not measured: {entry['adversary']}, {pair}: {entry['reason']}."
    if report["small_groups"]:
        named = [
            f"{label(g['attribute'], g['group'])} ({g['n_rows']})" for g in report["small_groups"]
        ]
        every = worst is not None and worst["small"]
        why = "and no comparison without them" if every else "never the largest"
        what = "rows" if report["n_units"] is None else "units"
        text = escape(shorten(", ".join(named)))
        yield f"Fewer than {report['min_group']} {what}, {why}: {text}"
    for name, count in report["unknown"].items():
        yield f"Unknown group, left out: {count} rows ({escape(shorten(name))})."


def _gaps(gaps: dict[str, Any]) -> Table:
    bound = points(None if gaps["gaussian_bound"] is None else min(gaps["gaussian_bound"], 1.0))
    rows = [
        *((name, number(gaps[key]), gaps.get(f"{key}_of"), meaning) for key, name, meaning in (
            ("mean_gap", "mean gap", "distance of group means"),
            ("cov_gap", "covariance gap", "difference of covariances"),
            ("mmd2", "MMD²", "kernel distance, Gaussian kernel"),
        )),
        ("Gaussian bound", bound, None, "of Δ for half-spaces in points, if groups were normal"),
    ]  # fmt: skip
    title = f"Largest gaps between groups ({gaps['compare']}), in the units of the columns"
    return _table(title, ("", "value", "largest for", "meaning"), rows)


def _pairs(held_out: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(entry["adversary"] for entry in held_out))
    values = {(entry["adversary"], entry["pair"]): entry["estimate"] for entry in held_out}
    pairs = {entry["pair"]: entry for entry in held_out}
    rows = [
        (pair, f"{entry['n_rows'][1]} / {entry['n_rows'][0]}",
         *(points(values.get((name, pair))) for name in names))
        for pair, entry in pairs.items()
    ]  # fmt: skip
    return _table("Δ of every pair of groups on held-out rows", ("pair", "rows", *names), rows)


def _losses(losses: dict[str, list[Any]]) -> Table:
    """Show what each group keeps of the columns that the features represent."""
    rows = [
        (label(entry["attribute"], entry["group"], "", entry["stratum"]), entry["n_rows"],
         *(number(entry[name]) for name in ("total", "variance", "best", "loss")),
         _PERSONS if entry["n_rows"] < MIN_ROWS else None)
        for entry in records(losses)
    ]  # fmt: skip
    head = ("group", "rows", "variance", "kept", "own best", "loss", "note")
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
    caption = "Compared with the group of the highest rate. Unknown groups are left out."
    return _table("Decisions: how often each group is selected", head, rows, caption)
