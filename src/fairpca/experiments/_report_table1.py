"""Table 1 of the report: measured beside printed, verdicts, and what refined adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairpca.experiments._methods import LABELS
from fairpca.experiments._printed import printed
from fairpca.experiments._protocol import DATASETS, MATCHING
from fairpca.experiments._results import Results

PAPER_METHODS = ("pca", "mean", "both")
MEASURES = ("variance", "linear", "gaussian")
SOURCES = {"gaussian_untuned": "gaussian"}
"""Measures that stand beside the printed value of another."""
TOLERANCES = {"pca": 2.0, "mean": 2.0, "both": 3.0}
DELTA_TOLERANCE = 0.05

_LABEL = "the protected label or features of the released file are not those of the printed table"
REASONS = {
    "biodeg": _LABEL,
    "ecoli": f"{_LABEL}; leaving out gvh and chg would give the printed variance of PCA",
    "image_segmentation": f"{_LABEL}; leaving out hue comes closer",
    "letter_recognition": f"{_LABEL}; leaving out Height would give the printed variance of PCA",
    "magic": f"{_LABEL}; leaving out fDist would give the printed variance of PCA",
    "statlog_landsat": _LABEL,
    "steel_plates": f"{_LABEL}; heavy tails make single splits differ by points",
}
UNEXPLAINED = "no cause known"
VARIANCES = {
    "taiwanese_credit": "the variance depends on the rows: the first 20 % give less than printed "
    "with the mean constraint, all rows more",
    "energy": "the protected label is balanced by design, so the mean gap is chance and the "
    "constraint takes away another direction in every split",
}
MACHINES = (
    "Δ depends on the tuning of the machine, which the paper does not print; ours weights groups "
    "equally, takes the better of a stiff and a loose linear machine, and the smoothest Gaussian "
    "one within a standard error of the best"
)
CALMON = "the paper says neither how bins are cut nor how test rows are mapped"


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """Format rows as a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def verdict(misses: list[str], dataset: str) -> str:
    """Say whether a row agrees, and if not why."""
    if not misses:
        return "agrees"
    return f"differs ({', '.join(misses)}): {_cause(misses, dataset)}"


def _cause(misses: list[str], dataset: str) -> str:
    """Collect the causes that are known of the differences of a row."""
    if dataset in REASONS:
        return REASONS[dataset]
    causes = []
    for miss in misses:
        if "variance" in miss:
            causes.append(VARIANCES.get(dataset, f"variance: {UNEXPLAINED}"))
        elif "linear" in miss or "gaussian" in miss:
            causes.append(MACHINES)
        elif "calmon" in miss:
            causes.append(CALMON)
        else:
            causes.append(UNEXPLAINED)
    return "; ".join(dict.fromkeys(causes))


def table1_sections(path: Path) -> list[str]:
    """Write the sections of table 1."""
    results = Results(path)
    return [
        "## Table 1: explained variance (%) and Δ, two components\n",
        "Text and table of the paper disagree: the text says five components, the printed "
        "variances are those of two. Agreement means within 2 points of variance (3 for both) "
        "and 0.05 of Δ, or within two standard deviations of the splits.\n",
        _measured_beside_printed(results),
        "### What refined adds, two components\n",
        "Same covariance gap as the paper's SDP, or none at all. Nulls are means over permuted "
        "groups; the Gaussian null is that of the first split.\n",
        _refined(results, 2),
        "### Five components, as the text says\n",
        "Nothing is printed for five components.\n",
        _five(results),
        "What refined costs with five components; the Gaussian null was taken for two only.\n",
        _refined(results, 5),
    ]


def _misses(results: Results, dataset: str) -> list[str]:
    misses = []
    for method in PAPER_METHODS:
        for measure in MEASURES:
            found = results.get(dataset, method, measure, 2)
            if found is None:
                continue
            difference = found.mean - printed("table1")[dataset, method, measure]
            bound = TOLERANCES[method] if measure == "variance" else DELTA_TOLERANCE
            if abs(difference) > max(bound, 2.0 * found.deviation):
                misses.append(f"{method} {measure} {difference:+.2f}")
    return misses


def _measured_beside_printed(results: Results) -> str:
    head = ["data", *(f"{m} {k}" for m in PAPER_METHODS for k in ("%var", "lin.", "Gauss."))]
    rows = []
    for dataset, _ in results.labels:
        cells = [dataset]
        for method in PAPER_METHODS:
            for measure in MEASURES:
                found = results.get(dataset, method, measure, 2)
                value = printed("table1")[dataset, method, measure]
                cells.append("–" if found is None else f"{found.text()} ({value:.2f})")
        rows.append([*cells, verdict(_misses(results, dataset), dataset)])
    return markdown_table([*head, "verdict"], rows)


def _refined(results: Results, d: int) -> str:
    head = ["data", "covariance gap", "%var both", "%var same gap", "%var zero"]
    head += ["lin. both / same / zero (null)", "Gauss. both / same / zero (null)"]
    rows = []
    for dataset, _ in results.labels:
        cells = [dataset]
        for method, measure, digits in (
            ("both", "cov_gap", 3),
            ("both", "variance", 2),
            ("refined_gap", "variance", 2),
            ("refined_zero", "variance", 2),
        ):
            found = results.get(dataset, method, measure, d)
            cells.append("–" if found is None else found.text(digits))
        cells += [_costs(results, dataset, "linear", d), _costs(results, dataset, "gaussian", d)]
        rows.append(cells)
    return markdown_table(head, rows)


def _costs(results: Results, dataset: str, measure: str, d: int) -> str:
    methods = ("both", "refined_gap", "refined_zero")
    values = [results.get(dataset, method, measure, d) for method in methods]
    null = results.get(dataset, "refined_gap", f"{measure}_null_mean", d)
    text = " / ".join("–" if value is None else f"{value.mean:.2f}" for value in values)
    return text if null is None else f"{text} ({null.mean:.2f})"


def _five(results: Results) -> str:
    methods = (*PAPER_METHODS, "refined_gap", "refined_zero")
    head = ["data", *(f"{LABELS[m]}: %var, lin., Gauss." for m in methods)]
    rows = []
    for dataset, _ in results.labels:
        cells = [dataset]
        for method in methods:
            found = [results.get(dataset, method, measure, 5) for measure in MEASURES]
            cells.append(", ".join("–" if f is None else f.text() for f in found))
        rows.append(cells)
    return markdown_table(head, rows)


def summary_table1(path: Path) -> list[str]:
    """Compare with the targets: differences on the matching sets, and refined against the SDP."""
    results = Results(path)
    lines = ["Table 1, two components, on the eight sets whose files match the paper:", ""]
    rows = []
    for method in PAPER_METHODS:
        for measure in (*MEASURES, *SOURCES):
            pairs = [
                (found.mean, printed("table1")[dataset, method, SOURCES.get(measure, measure)])
                for dataset in MATCHING
                if (found := results.get(dataset, method, measure, 2)) is not None
            ]
            if not pairs:
                continue
            mean = float(np.mean([abs(a - b) for a, b in pairs]))
            bound = TOLERANCES[method] if measure == "variance" else DELTA_TOLERANCE
            met = "–" if measure in SOURCES else "yes" if mean <= bound else "**no**"
            rows.append([LABELS[method], measure, f"{mean:.3f}", f"{bound:g}", met])
    head = ["method", "measure", "mean absolute difference", "target", "met"]
    note = (
        "The Gaussian machine is tuned by 5-fold cross-validation, as the paper says; "
        "`gaussian_untuned` is the same with scikit-learn's defaults instead (not a target)."
    )
    return [*lines, markdown_table(head, rows), note, "", *_refined_summary(results), ""]


def _refined_summary(results: Results) -> list[str]:
    """Say what refined keeps and costs against the paper's SDP, over all sets."""
    lines = []
    for d in (2, 5):
        gains = _differences(results, "variance", d)
        if not gains:
            continue
        values = list(gains.values())
        ties = [name for name, gain in gains.items() if abs(gain) < 0.005]
        linear = np.mean(list(_differences(results, "linear", d).values()))
        gaussian = np.mean(list(_differences(results, "gaussian", d).values()))
        equal = f" (equal to two digits on {', '.join(ties)})" if ties else ""
        lines.append(
            f"* d = {d}: at the covariance gap of the paper's SDP, refined keeps more variance on "
            f"{sum(gain > 0.0 for gain in values)} of {len(values)} sets{equal}, "
            f"{np.mean(values):.1f} points on average (median {np.median(values):.1f}). Its Δ "
            f"changes by {linear:+.3f} (linear) and {gaussian:+.3f} (Gaussian) on average; the "
            "tables below have every set with its null."
        )
    if lines:
        lines.append(
            "* With five components recidivism has no freedom left: six features less the "
            "direction of the mean gap are five."
        )
    return lines


def _differences(results: Results, measure: str, d: int) -> dict[str, float]:
    """Refined at the same gap minus the paper's SDP, by data set."""
    found = {}
    for dataset in DATASETS:
        before = results.get(dataset, "both", measure, d)
        after = results.get(dataset, "refined_gap", measure, d)
        if before is not None and after is not None:
            found[dataset] = after.mean - before.mean
    return found
