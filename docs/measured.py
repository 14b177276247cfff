"""Tables and sentences of the pages, from what the benchmarks left in benchmarks/results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from figures import Rows, cell, markdown, mean, only, spoken, values
from scipy.stats import binomtest

# Title of a column, and the method and penalty of its points in frontier.csv.
PEERS = {
    "PCA": ("PCA", 0.0),
    "paper's program": ("paper's SDP", 0.01),
    "LEACE, then PCA": ("LEACE + PCA", 0.0),
    "MMD penalty": ("MMD penalty", 10.0),
    "`FairPCA`": ("FairPCA", 1.0),
}
DELTA = 0.2


def _frontier(rows: Rows, d: int) -> str:
    """Return variance in percent and leakage of every method, data set by data set."""
    head = [f"d = {d}", *PEERS, f"`delta={DELTA:g}`", "Δ̂", "Gaussian SVM, trees, network"]
    lines, key = [], f"chosen_{DELTA:g}"
    for name in values(only(rows, d=d), "data"):
        of_set = only(rows, d=d, data=name)
        chosen = [row for row in of_set if key in row]
        if not chosen:
            continue
        mine = [row for row in of_set if row["split"] in {row["split"] for row in chosen}]
        cells = [spoken(name)]
        cells += [_point(only(mine, method=m, penalty=penalty)) for m, penalty in PEERS.values()]
        missed = sum(row[key] == 0 for row in chosen)
        note = " (not reached)" if missed == 1 == len(chosen) else f" (missed in {missed})"
        cells.append(_point(chosen) + (note if missed else ""))
        cells.append(f"{mean(chosen, 'delta'):.2f} ± {mean(chosen, 'error'):.2f}")
        cells.append(", ".join(f"{mean(chosen, who):.2f}" for who in ("svm", "trees", "net")))
        lines.append(cells)
    return markdown(head, lines)


def _point(rows: Rows) -> str:
    """Return variance and leakage, averaged over splits."""
    leakage = np.mean([max(row["svm"], row["trees"], row["net"]) for row in rows])
    return f"{100 * mean(rows, 'variance'):.1f} / {leakage:.2f}"


def _frontier_claims(rows: Rows) -> str:
    """Return what `frontier.py summary` counted."""
    return "\n".join(map(_frontier_claim, rows)) + "\n"


def _frontier_claim(row: dict) -> str:
    requested = ", ".join(f"{delta:g}" for delta in row["deltas"])
    sets = ", ".join(map(spoken, row["sets"]))
    of = "Sets on which constants were chosen" if row["part"] == "chosen on" else "Other sets"
    return (
        f"- **{of}** ({sets}; {row['cells']} cells): of {row['peers']} points of the paper's "
        "program, dropping the leading directions of Q, LEACE and an MMD penalty, "
        f"{_share(row, 'matched', 'peers')} were matched by a point of FairPCA or DeltaFairPCA "
        "(at least as much variance less 0.3 points, leakage at most 0.03 more), "
        f"{_share(row, 'matched_with_error', 'peers')} if leakage may differ by one standard "
        f"error of the held-out rows more. {row['beaten_by_0']} of their points were better than "
        f"one of ours by both measures, and {row['beaten_by_2']} if leakage must differ by two "
        f"standard errors more. Of the requests {requested}, {row['requests']} were called "
        f"reached, {row['below_chance']} of them below the level of chance; in "
        f"{row['exceeded']} the SVM exceeded the request by more than 0.03 on held-out rows, and "
        f"in {row['panel_exceeded']} the worst of SVM, trees and network.{_averaged(row)}"
    )


def _averaged(row: dict) -> str:
    """Return what splits decide together, every point of a peer counted once."""
    if row["mean_error"] is None:
        return ""
    missed = "; ".join(
        f"{spoken(data)}, d = {d}, {method}: {mean:.3f} more"
        for data, d, method, _, mean, _ in row["missed"]
    )
    but = f" (not: {missed})" if missed else ""
    return (
        f" With each of the {row['points']} points counted once, however many splits its set has, "
        f"{100 * row['literal']:.1f} % were matched in a split on average. In the mean of their "
        f"splits (median standard error {row['mean_error']:.3f} where there are several) "
        f"{_share(row, 'matched_mean', 'points')} were matched{but}, "
        f"and {_share(row, 'matched_said', 'points')} if our point is the one with the least Δ̂, "
        "not the one with the least leakage on held-out rows."
    )


def _promise(rows: Rows) -> str:
    """Return what was said and what was true, kind by kind."""
    head = ["tables", "fits", "called reached", "Δ̂ − Δ on average", "root mean square error",
            "inside Δ̂ ± 2 errors", "broken: family asked for", "broken: panel",
            "broken: many rows"]  # fmt: skip
    lines = []
    for row in (row for row in rows if "setting" not in row):
        name = next(
            text
            for key, text in (
                ("kind", row.get("kind")),
                ("set", row.get("set") and f"{spoken(row['set'])}, 1,000 rows"),
                ("n", row.get("n") and f"{row['n']:,} rows"),
                ("d", row.get("d") and f"d = {row['d']}"),
            )
            if key in row
        )
        lines.append(
            [name, str(row["fits"]), str(row["claims"]), f"{row['bias']:+.3f}",
             f"{row['rmse']:.3f}", f"{100 * row['covered'] / row['fits']:.0f} %",
             *(f"{row[key]} (worst {row[key.replace('broken', 'worst')]:+.3f})" if key in row
               else "" for key in ("true_broken", "panel_broken", "panel_many_broken"))]
        )  # fmt: skip
    shares = {row["setting"]: row["covered"] / row["fits"] for row in rows if "setting" in row}
    low = [f"{name} ({100 * share:.0f} %)" for name, share in shares.items() if share < 0.9]
    settings = (
        f"Of {len(shares)} settings (kind, rows, components), {len(shares) - len(low)} have the "
        "truth inside Δ̂ ± 2 errors in at least 90 % of the fits"
    )
    return markdown(head, lines) + f"\n{settings}{': not ' + '; '.join(low) if low else ''}.\n"


def _promise_sets(rows: Rows) -> str:
    """Return requests on larger sets, with adversaries of as many and of many more rows."""
    head = ["set", "d", "requested", "said", "called reached", "SVM, as many rows",
            "panel, as many rows", "panel, 9,000 rows", "variance"]  # fmt: skip
    lines = [
        [spoken(row["kind"]), str(row["d"]), f"{row['request']:g}",
         f"{row['said']:.2f} ± {row['error']:.2f}", "yes" if row["claimed"] else "no",
         f"{row['true']:.2f}", f"{row['panel']:.2f}", f"{row['panel_many']:.2f}",
         f"{100 * row['variance']:.1f} %"]
        for row in rows
        if row["seed"] == 0
    ]  # fmt: skip
    return markdown(head, lines)


def _promise_restarts(rows: Rows) -> str:
    """Return how much of the variance of fifty ascents a search keeps, also at equal truth."""
    shares = np.array([row["variance"] / row["variance_50"] for row in rows])
    more = np.array([row["true_50"] - row["true"] for row in rows])[shares < 0.95]
    larger = (
        f"In the other {len(more)} the true Δ of the basis with more variance is larger in "
        f"{np.sum(more > 0)}, by {more.mean():.3f} on average. "
    )
    return (
        f"Of {len(rows)} requests, {np.sum(shares >= 0.95)} kept at least 95 % of the variance "
        "that a search with 50 ascents around the request keeps; the median share is "
        f"{100 * np.median(shares):.0f} %, the smallest {100 * shares.min():.0f} %. "
        f"{larger if len(more) else ''}**At equal truth** (SVMs on 20,000 new rows, against the "
        "bases that the other search returns for these or neighbouring requests) "
        f"{_at_equal_truth(rows, 'equal')}; the search with 50 ascents against the shorter one: "
        f"{_at_equal_truth(rows, 'equal_50')}.\n"
    )


def _at_equal_truth(rows: Rows, key: str) -> str:
    shares = np.array([row[key] for row in rows if row[key] is not None])
    return (
        f"{np.sum(shares >= 0.95)} of {len(shares)} kept 95 % (geometric mean "
        f"{100 * np.exp(np.log(shares).mean()):.0f} %), and in {len(rows) - len(shares)} its Δ is "
        "below that of every basis of the other"
    )


def _share(row: dict, part: str, whole: str) -> str:
    return f"{100 * row[part] / row[whole]:.1f} %"


def _frontier_speed(rows: Rows) -> str:
    lines = [
        [f"{row['rows']:,}", f"{row['penalty']:.1f} s", f"{row['search']:.1f} s"] for row in rows
    ]
    search = "search (`delta=…`): three paths, ascents around the request, classifiers"
    return markdown(["rows", "`penalty=1.0`", search], lines)


GROUPS = {2: "sex", 3: "education", 4: "education × sex, K = 4", 6: "education × sex, K = 6"}


def _worst_speed(rows: Rows) -> str:
    lines = [
        [
            f"K = {row['groups']}, {row['objective']}",
            f"{row['eigendecompositions']:.1f}",
            f"{row['seconds']:.1f}",
            _small(row["gap"]),
            str(row.get("multiplicative_weights", "–")),
        ]
        for row in only(rows, case="speed")
    ]
    head = ["p = 1,000, d = 3", "eigendecompositions", "seconds", "certified gap"]
    return markdown([*head, "multiplicative weights, eigendecompositions"], lines)


def _small(gap: float) -> str:
    return f"{gap:.0e}" if gap >= 1e-12 else "below 1e-12"


def _worst_credit(rows: Rows) -> str:
    """Return the worst loss before and after, and the gap where there is one."""
    lines = []
    for d in values(only(rows, case="credit"), "d"):
        cells = [str(d)]
        for groups in GROUPS:
            (row,) = only(rows, case="credit", d=d, groups=groups)
            gap = f", gap {100 * row['gap']:.2g} %" if row["gap"] > 1e-5 else ""
            cells.append(f"{row['pca']:.3f} → {row['fair']:.3f} ({100 * row['share']:.0f} %{gap})")
        lines.append(cells)
    return markdown(["d", *GROUPS.values()], lines)


SENSES = {"pca": "plain PCA", "means": "equal means", "group": "worst loss", "both": "both"}


def _worst_sets(rows: Rows, d: int) -> str:
    lines = []
    for row in only(rows, case="sets", d=d):
        cells = []
        for key in SENSES:
            kept, loss, gap = (row[f"{key}_{name}"] for name in ("variance", "loss", "mean_gap"))
            cells.append(f"{kept:.1f} / {loss:.2f} / {gap:.2f}")
        lines.append([spoken(row["data"]), *cells])
    return markdown([f"d = {d}", *SENSES.values()], lines)


def _worst_claims(rows: Rows) -> str:
    """Return where the two senses of fair agree, and what both together cost."""
    rows = only(rows, case="sets")
    lower = [row for row in rows if row["means_loss"] < row["pca_loss"]]
    cost = np.array([row["means_variance"] - row["both_variance"] for row in rows])
    saved = max(1 - row["both_loss"] / row["means_loss"] for row in rows if row["means_loss"])
    closer = min(lower, key=lambda row: row["group_mean_gap"] / row["pca_mean_gap"])
    names = ", ".join(dict.fromkeys(spoken(row["data"]) for row in lower))
    return (
        f"- **They agree** in part: equal means also lower the worst loss of plain PCA in "
        f"{len(lower)} of the {len(rows)} rows ({names}), where the leading directions of PCA are "
        "those between the groups. There the second sense also brings the means together, which "
        f"nothing requires: {spoken(closer['data'])} at d = {closer['d']} from "
        f"{closer['pca_mean_gap']:.2f} to {closer['group_mean_gap']:.2f}.\n"
        "- **They pull apart** in the others: where the means differ along directions in which the "
        "groups themselves vary, equal means take those directions away, and a group loses more "
        "than PCA took from it. No choice among the directions left repairs that, as the last "
        "column proves.\n"
        f"- **Both costs little more than equal means alone**: at most {cost.max():.1f} points of "
        f"the variance of all rows and at most one point in {(cost <= 1).sum()} of the {len(rows)} "
        f"rows, for a worst loss that is up to {100 * saved:.0f} % smaller.\n"
    )


def _kernel_speed(rows: Rows) -> str:
    head = ["2,000 rows, rank 200", "KernelPCA(2)", "KernelPCA(200)", "FairKernelPCA"]
    exact = [row for row in rows if "kernel_pca_2" in row]
    names = ("kernel_pca_2", "kernel_pca_200", "fair_kernel_pca")
    lines = []
    for row in exact:
        seconds = [row[name] for name in names]
        ratios = " / ".join(f"{seconds[2] / other:.1f}" for other in seconds[:2])
        shown = [f"{value:.2f} s" for value in seconds]
        lines.append([spoken(row["what"]), *shown, ratios, f"{100 * row['gap']:.2f} %"])
    first = markdown([*head, "ratios", "certified gap"], lines)
    lines = [
        [
            row["what"],
            f"{row['features_alone']:.2f} s",
            f"{row['fair_kernel_pca']:.2f} s",
            f"{row['fair_kernel_pca'] / row['features_alone']:.1f}",
            f"{100 * row['gap']:.2f} %",
        ]
        for row in rows
        if "features_alone" in row
    ]
    head = ["landmarks", "Nyström features alone", "FairKernelPCA", "ratio", "certified gap"]
    return first + "\n" + markdown(head, lines)


QUESTION = {"linear_cross": "linear Δ", "rbf_cross": "Gaussian Δ", "rbf": "Gaussian Δ̂, in-sample"}
METHODS = (
    *("PCA", "FairPCA, means", "FairPCA"),
    *("KernelPCA", "FairKernelPCA, means", "FairKernelPCA"),
)


def _kernel_average(rows: Rows) -> str:
    head = ["d", "method", "`cov_weight`", *QUESTION.values(), "variance kept", "recovered"]
    lines = []
    for d in values(rows, "d"):
        for method in METHODS:
            for penalty in values(only(rows, d=d, method=method), "penalty"):
                mine = only(rows, d=d, method=method, penalty=penalty)
                found = [f"{mean(mine, name):.2f}" for name in QUESTION]
                found += [f"{100 * mean(mine, name):.1f} %" for name in ("variance", "recovered")]
                lines.append([str(d), method, "" if penalty is None else f"{penalty:g}", *found])
    return markdown(head, lines)


def _kernel_difference(rows: Rows) -> str:
    """Return FairKernelPCA less FairPCA, Gaussian family, over the data sets."""
    lines = []
    for penalty in (1.0, 10.0):
        for d in values(rows, "d"):
            less = []
            for name in values(rows, "data"):
                ours, other = (
                    mean(only(rows, d=d, penalty=penalty, data=name, method=method), "rbf_cross")
                    for method in ("FairKernelPCA", "FairPCA")
                )
                less.append(ours - other)
            error = np.std(less, ddof=1) / np.sqrt(len(less)) if len(less) > 1 else 0.0
            wins = int(np.sum(np.array(less) < 0))
            sign = binomtest(wins, len(less)).pvalue
            lines.append(
                [
                    f"d = {d}, `cov_weight={penalty:g}`",
                    f"{np.mean(less):+.3f}",
                    f"{error:.3f}",
                    f"{wins} of {len(less)}",
                    f"p = {sign:.2f}",
                ]
            )
    head = ["", "mean difference", "standard error", "FairKernelPCA lower on", "sign test"]
    return markdown(head, lines)


def _kernel_sets(rows: Rows) -> str:
    names = ("PCA", "FairPCA", "KernelPCA", "FairKernelPCA")
    rows = [row for row in rows if row["penalty"] in (None, 1.0)]
    lines = [
        [spoken(name)]
        + [
            f"{mean(only(rows, data=name, d=d, method=method), 'rbf_cross'):.2f}"
            for d in values(rows, "d")
            for method in names
        ]
        for name in values(rows, "data")
    ]
    return markdown(["data", *(f"{m}, {d}" for d in values(rows, "d") for m in names)], lines)


def _scale_passes(rows: Rows) -> str:
    lines = [
        [
            row["what"],
            f"{row['rows'] / 1e6:g} million",
            f"{row['seconds']:.1f}",
            f"{row['rows'] / row['seconds'] / 1e6:.1f}",
            cell(row.get("processor")),
        ]
        for row in rows
        if "seconds" in row
    ]
    table = markdown(["pass", "rows", "seconds", "million rows/s", "processor seconds"], lines)
    notes = [f"- {row['table']}: {note}." for row in rows for note in row.get("notes", ())]
    return table + "\n" + "\n".join(notes) + "\n"


def _scale_memory(rows: Rows) -> str:
    lines = [[row["what"], str(row["megabytes"])] for row in only(rows, table="memory")]
    return markdown(["Parquet pass", "peak memory above the interpreter, MB"], lines)


def _scale_shapes(rows: Rows) -> str:
    lines = [
        [str(row["features"]), str(row["groups"]), f"{row['microseconds']:.1f}"]
        for row in only(rows, table="shapes")
    ]
    return markdown(["features", "groups", "processor µs a row, one thread"], lines)


def _scale_estimate(rows: Rows) -> str:
    """Return what the figures say of ten billion rows of 500 features."""
    (row,) = only(rows, table="shapes", features=500)
    hours = 1e10 * row["microseconds"] / 1e6 / 3600
    return (
        f"- Sums: 10¹⁰ × {row['microseconds']:.0f} µs = {hours:.0f} core hours; on 64 cores "
        f"{60 * hours / 64:.0f} minutes, if they scale and storage delivers 10 GB/s. On two cores "
        f"about {hours / 2:.0f} hours.\n"
    )


COMPARED = {
    "variance": ("variance kept, %", lambda value: f"{100 * value:.1f}"),
    "linear": ("linear Δ", "{:.2f}".format),
    "gaussian": ("Gaussian Δ", "{:.2f}".format),
    "loss": ("largest loss of a group", "{:.2f}".format),
    "times": ("time, PCA = 1", lambda value: f"{float(f'{value:.2g}'):,g}"),
}


def _comparison(rows: Rows) -> str:
    """Return every tool on the same rows, a table for each data set."""
    head = ["method", *(title for title, _ in COMPARED.values()), "attribute at transform", "code"]
    parts = []
    for data in values(rows, "data"):
        mine = only(rows, data=data)
        lines = []
        for row in mine:
            needed = "needed" if row["attribute"] else "not needed"
            lines.append([*_compared(row), needed, row["package"] or "own"])
        parts.append(f"**{spoken(data)}**, {_size(mine[0])}:\n\n" + markdown(head, lines))
    return "\n".join(parts)


def _compared(row: dict) -> list[str]:
    figures = [show(row[key]) if key in row else "–" for key, (_, show) in COMPARED.items()]
    return [row["method"], *figures]


def _size(row: dict) -> str:
    return "{n:,} fitted rows, {p} features, {d} components".format(**row)


def _comparison_adult(rows: Rows) -> str:
    """Return what this library does to adult."""
    packages = ("fairpca", "scikit-learn")
    ours = [row for row in only(rows, data="adult") if (row["package"] or "").startswith(packages)]
    if not ours:
        return "*Not measured yet: adult was not at hand.*\n"
    head = [_size(ours[0]), *(title for title, _ in COMPARED.values())]
    return markdown(head, [_compared(row) for row in ours])


# Pieces of pages by name: the file of figures, and what makes text of its rows.
def _sparse_sets(rows: Rows, loadings: int) -> str:
    """Return what sparse components explain of each table, and their gaps."""
    head = ["data set", "features", "`FairPCA`", "sparse", "share of `FairPCA`", "covariance gap",
            "mean gap, sparse", "mean gap, thresholded"]  # fmt: skip
    lines = [
        [spoken(row["set"]), str(row["p"]), f"{100 * row['FairPCA']:.1f} %",
         f"{100 * row['sparse']:.1f} %", f"{row['share of FairPCA']:.3f}",
         f"{row['covariance gap, FairPCA']:.3f} → {row['covariance gap, sparse']:.3f}",
         "0" if row["mean gap, sparse"] < 1e-12 else f"{row['mean gap, sparse']:.1e}",
         f"{row['mean gap, thresholded']:.2f}"]
        for row in only(rows, loadings=loadings)
    ]  # fmt: skip
    return markdown(head, lines)


def _sparse_claims(rows: Rows) -> str:
    """Return on how many sets sparse components explain nearly as much."""
    lines = []
    for loadings, least in ((5, 0), (10, 15)):
        counted = [row for row in only(rows, loadings=loadings) if row["p"] >= least]
        good = sum(row["share of FairPCA"] >= 0.95 for row in counted)
        which = f" with {least} features or more" if least else ""
        lines.append(
            f"- {loadings} loadings: at least 95 % of what `FairPCA` explains on {good} of "
            f"{len(counted)} sets{which}.\n"
        )
    return "".join(lines)


def _sparse_speed(rows: Rows) -> str:
    """Return times of sparse components next to those of a certified dense fit."""
    head = ["features", "components", "loadings", "`FairPCA`", "sparse", "ratio"]
    lines = [
        [str(row["p"]), str(row["d"]), str(row["loadings"]), f"{1e3 * row['FairPCA']:.0f} ms",
         f"{1e3 * row['sparse']:.0f} ms", f"{row['ratio']:.1f}"]
        for row in rows
    ]  # fmt: skip
    return markdown(head, lines)


def _sparse_leakage(rows: Rows) -> str:
    """Return how far boosted trees tell the groups apart on held-out rows."""
    head = ["wine quality, 5 components", "Δ of boosted trees, held-out rows"]
    return markdown(head, [[row["method"], f"{row['delta, boosted trees']:.2f}"] for row in rows])


CHANGED = {
    "AUC of y, logistic": "auc",
    "AUC of y, trees": "auc_trees",
    "variance": "variance",
    "parity difference": "parity",
    "leakage, Gaussian SVM": "leakage_svm",
    "leakage, trees": "leakage_trees",
}


def _private(rows: Rows) -> str:
    """Return what components from noisy moments keep, and their gaps on held-out rows."""
    head = ["rows of", "features", "n", "ε", "variance kept", "least of five", "mean gap",
            "covariance gap"]  # fmt: skip
    return markdown(
        head,
        [
            [row["set"], str(row["p"]), f"{row['n']:,}", f"{row['epsilon']:g}",
             *(f"{100 * row[name]:.1f} %" for name in ("kept", "kept_least")),
             *(f"{row[gap]:.3f} ({row[f'{gap}_exact']:.3f})" for gap in ("mean_gap", "cov_gap"))]
            for row in rows
        ],
    ) + "\nIn brackets: the gap of the fit without noise.\n"  # fmt: skip


def _target_changes(rows: Rows) -> str:
    """Return changes by a target, and the sets that rose and fell by two standard errors."""
    lines = [
        [f"{row['form']}, d = {row['d']}",
         *(f"{row[k]:+.3f} ({row[f'{k}_up']}/{row[f'{k}_down']})" for k in CHANGED.values())]
        for row in rows
    ]  # fmt: skip
    return markdown(["", *CHANGED], lines)


def _target_danger(rows: Rows) -> str:
    """Say on which set the leakage to a Gaussian SVM rises most."""
    some = only(rows, form="covariances", d=3)
    before, after = (
        {name: mean(only(some, set=name, weight=w), "leakage_svm") for name in values(some, "set")}
        for w in (0, 1)
    )
    worst = max(before, key=lambda name: after[name] - before[name])
    return (
        f"Most of all on {spoken(worst)}: with three components and `cov_weight=10` the leakage to "
        f"a Gaussian SVM rose from {before[worst]:.3f} to {after[worst]:.3f}.\n"
    )


def _target_compare(rows: Rows) -> str:
    keys = ("auc", "accuracy", "parity", "odds", "leakage_svm", "leakage_trees")
    head = ["", "AUC of y", "accuracy", "parity difference", "equalised odds difference",
            "leakage, Gaussian SVM", "leakage, trees"]  # fmt: skip
    return markdown(
        head,
        [[row["method"], *(f"{row[k]:.3f}" if k in row else "–" for k in keys)] for row in rows],
    )


def _batches(rows: Rows) -> str:
    head = ["", "method", "conditions", "batch, linear", "batch, neighbours"]
    lines = [
        [row["case"], row["method"], *(f"{row[name]:.2f}" for name in head[2:])] for row in rows
    ]
    return markdown(head, lines)


def _embeddings(rows: Rows) -> str:
    head = ["", "time, PCA = 1", "memory", "change", "variance kept", "attribute, linear",
            "attribute, quadratic", "topic"]  # fmt: skip
    shares = ("change", "variance", "linear", "quadratic", "topic")
    return markdown(
        head,
        [
            [
                row["method"].replace("FairPCA(", "`FairPCA(").replace(")", ")`", 1)
                if row["method"].startswith("Fair")
                else row["method"],
                f"{row['time']:.1f}",
                f"{row['memory']:.2f}",
                *(f"{100 * row[name]:.1f} %" if name in row else "" for name in shares),
            ]
            for row in rows
        ],
    )


PIECES: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "frontier_2": ("frontier", lambda rows: _frontier(rows, 2)),
    "frontier_5": ("frontier", lambda rows: _frontier(rows, 5)),
    "frontier_claims": ("frontier_summary", _frontier_claims),
    "frontier_speed": ("frontier_speed", _frontier_speed),
    "promise": ("promise_summary", _promise),
    "promise_sets": ("promise_sets", _promise_sets),
    "promise_restarts": ("promise_restarts", _promise_restarts),
    "worst_speed": ("worst", _worst_speed),
    "worst_credit": ("worst", _worst_credit),
    "worst_sets_2": ("worst", lambda rows: _worst_sets(rows, 2)),
    "worst_sets_5": ("worst", lambda rows: _worst_sets(rows, 5)),
    "worst_claims": ("worst", _worst_claims),
    "kernel_speed": ("kernel_speed", _kernel_speed),
    "kernel_average": ("kernel_question", _kernel_average),
    "kernel_difference": ("kernel_question", _kernel_difference),
    "kernel_sets": ("kernel_question", _kernel_sets),
    "sparse_5": ("sparse", lambda rows: _sparse_sets(rows, 5)),
    "sparse_10": ("sparse", lambda rows: _sparse_sets(rows, 10)),
    "sparse_claims": ("sparse", _sparse_claims),
    "sparse_speed": ("sparse_speed", _sparse_speed),
    "sparse_leakage": ("sparse_leakage", _sparse_leakage),
    "scale_passes": ("scale", _scale_passes),
    "scale_memory": ("scale", _scale_memory),
    "scale_shapes": ("scale", _scale_shapes),
    "scale_estimate": ("scale", _scale_estimate),
    "batches": ("batches", _batches),
    "embeddings": ("embeddings", _embeddings),
    "private": ("private", _private),
    "target_changes": ("target_changes", _target_changes),
    "target_danger": ("target", _target_danger),
    "target_compare": ("target_compare", _target_compare),
    "comparison": ("comparison", _comparison),
    "comparison_adult": ("comparison", _comparison_adult),
}
