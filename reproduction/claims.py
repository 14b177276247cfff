"""The claims of the paper, each with a verdict and the figures behind it.

A verdict is "yes", "partly" or "no" by a rule that stands in the function of the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from reproduction.datasets import UCI
from reproduction.methods import PAPER_METHODS
from reproduction.results import Results, cluster_shares, compared_definition

Files = Mapping[str, Path]
SMALL = 0.02
"""A change of Δ up to this is none."""
SAME_SCORE = 0.05
"""Table 4 and 5: a score or AUC within this of another one is kept."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, whether it holds here, and the figures."""

    text: str
    verdict: str
    figures: str


def check_claims(files: Files, texts: Mapping[str, str]) -> list[Claim]:
    """Check every claim whose tables are among the files."""
    claims = []
    for name, text in texts.items():
        needs, check = CHECKS[name]
        if all(table in files for table in needs):
            verdict, figures = check(files)
            claims.append(Claim(text, verdict, figures))
    return claims


def values_of(path: Path, method: str, measure: str, d: int | None = 2) -> dict[str, float]:
    """Mean over splits by data set, for the definition that is held against print."""
    results = Results(path)
    estimates = {n: results.get(n, compared_definition(n), method, measure, d) for n in UCI}
    return {name: value.mean for name, value in estimates.items() if value is not None}


def changes(path: Path, measure: str, before: str, after: str) -> Any:
    """Value after minus value before, one for each data set."""
    first, second = (values_of(path, method, measure) for method in (before, after))
    return np.array([second[name] - first[name] for name in first])


def _verdict(share: float) -> str:
    return "yes" if share >= 0.8 else "partly" if share >= 0.5 else "no"


MEASURES = (
    ("table1", "linear", "linear Δ"),
    ("table1", "gaussian_released", "Gaussian Δ"),
    ("table3", "ks_released", "distance of table 3"),
    ("table4", "std", "deviation over clusters"),
)


def _fairer(files: Files) -> tuple[str, str]:
    """By the share of sets on which both constraints lower a measure, over the four measures."""
    parts, shares = [], []
    for table, measure, name in MEASURES:
        mean, both = (changes(files[table], measure, "pca", m) for m in ("mean", "both"))
        shares.append(np.mean(both < 0.0))
        parts.append(f"{name} {np.sum(mean < 0.0)} and {np.sum(both < 0.0)}")
    count = len(values_of(files["table1"], "pca", "linear"))
    text = f"lower than PCA's with the mean constraint and with both, of {count} sets: "
    return _verdict(float(np.mean(shares))), text + ", ".join(parts)


def _linear_gains(files: Files) -> tuple[str, str]:
    """Yes if linear Δ falls more than Gaussian Δ on average, for either constraint."""
    path, parts, more = files["table1"], [], []
    for method, name in (("mean", "mean constraint"), ("both", "both")):
        linear, gaussian = (
            -changes(path, m, "pca", method) for m in ("linear", "gaussian_released")
        )
        more.append(linear.mean() > gaussian.mean())
        parts.append(
            f"{name}: linear Δ falls by {linear.mean():.2f}, Gaussian by {gaussian.mean():.2f} "
            f"(linear more on {np.sum(linear > gaussian)} of {len(linear)} sets)"
        )
    return _verdict(float(np.mean(more))), "; ".join(parts)


def _superfluous(files: Files) -> tuple[str, str]:
    """Yes if there are such sets but no more than half."""
    path = files["table1"]
    names = list(values_of(path, "pca", "linear"))
    falls = [changes(path, m, "mean", "both") < -SMALL for m in ("linear", "gaussian_released")]
    idle = [name for name, a, b in zip(names, *falls, strict=True) if not a and not b]
    verdict = "yes" if 0 < len(idle) <= len(names) / 2 else "no"
    listed = f": {', '.join(idle)}" if idle else ""
    return (
        verdict,
        f"neither Δ falls by more than {SMALL} on {len(idle)} of {len(names)} sets{listed}",
    )


def _curves(path: Path) -> Any:
    frame = pandas.read_csv(path)
    return frame.groupby(["method", "mu", "measure", "delta"])["value"].mean()


def _sensitive_to_delta(files: Files) -> tuple[str, str]:
    """Yes if Δ changes more than the variance, relative to δ = 0, with and without covariance."""
    curves, parts, more = _curves(files["figure2"]), [], []
    for method, mu, name in (("mean", 0.0, "mean constraint"), ("both", 0.01, "both, μ = 0.01")):
        first, last = (
            {m: curves[method, mu, m, delta] for m in ("linear", "variance")}
            for delta in (0.0, 0.5)
        )
        # Rounded here, so that nothing is not a negative zero.
        grows = {m: round(100.0 * (last[m] / first[m] - 1.0)) for m in first}
        more.append(grows["linear"] > grows["variance"])
        parts.append(f"{name}: Δ {grows['linear']:+d} %, variance {grows['variance']:+d} %")
    return _verdict(float(np.mean(more))), "wine, from δ = 0 to 0.5; " + "; ".join(parts)


def _no_benefit(files: Files) -> tuple[str, str]:
    """Yes if neither Δ nor the variance moves by more than a tenth of what it moved before."""
    curves, parts, still = _curves(files["figure2"]), [], []
    for measure, name, digits in (("linear", "Δ", 3), ("variance", "variance", 1)):
        values = [curves["both", mu, measure].mean() for mu in (0.0001, 0.1, 1.0)]
        still.append(abs(values[2] - values[1]) <= 0.1 * abs(values[1] - values[0]))
        listed = ", ".join(f"{value:.{digits}f}" for value in values)
        parts.append(f"{name} {listed}")
    text = "wine, mean over δ, at μ = 0.0001, 0.1 and 1: " + "; ".join(parts)
    return _verdict(float(np.mean(still))), text


def _nhanes(files: Files) -> tuple[str, str]:
    """By how many deviations are less than half of PCA's, as run and as described."""
    shares, parts, less = cluster_shares(files["table2"]), [], []
    for description, name in (("run_weaker", "as run"), ("described", "as described")):
        values = {
            method: np.std([np.mean(shares[description, method, rank]) for rank in (1, 2, 3)])
            for method in PAPER_METHODS
        }
        less += [values[m] < values["pca"] / 2.0 for m in ("mean", "both")]
        listed = " → ".join(f"{values[m]:.2f}" for m in ("pca", "mean", "both"))
        parts.append(f"{name} {listed}")
    return _verdict(float(np.mean(less))), "printed 14.87 → 2.46 → 1.79; " + "; ".join(parts)


def _hours(files: Files) -> tuple[str, str]:
    """By the descriptions in which PCA's differ most after 15:00 and fair ones from 8 to 17."""
    frame = pandas.read_csv(files["figure3"])
    parts, holds = [], []
    for description, name in (("run_weaker", "as run"), ("described", "as described")):
        shares, here = [], []
        for method in PAPER_METHODS:
            mine = frame[(frame["description"] == description) & (frame["method"] == method)]
            spread = mine.groupby("bucket")["activity"].var(ddof=0)
            hour, total = spread.index / 3.0, spread.sum()
            evening = spread[hour >= 15.0].sum() / total
            work = spread[(hour >= 8.0) & (hour < 17.0)].sum() / total
            here.append(evening > 0.5 if method == "pca" else work > 0.5)
            shares.append(f"{100 * evening:.0f} and {100 * work:.0f}")
        holds.append(all(here))
        parts.append(f"{name} {', '.join(shares)}")
    text = (
        "% of the variance between clusters after 15:00 and from 8:00 to 17:00, PCA, mean, both: "
    )
    note = " (as run, a day has 1400 minutes, so that its hours are not those of a clock)"
    return _verdict(float(np.mean(holds))), text + "; ".join(parts) + note


def _score_kept(files: Files) -> tuple[str, str]:
    """By the share of sets whose score rises by no more than SAME_SCORE."""
    parts, kept = [], []
    for method, name in (("mean", "mean constraint"), ("both", "both")):
        change = changes(files["table4"], "score", "pca", method)
        kept.append(np.mean(change <= SAME_SCORE))
        parts.append(
            f"{name}: {change.mean():+.2f} on average, at most {SAME_SCORE} worse on "
            f"{np.sum(change <= SAME_SCORE)} of {len(change)} sets, "
            f"better on {np.sum(change < 0.0)}"
        )
    text = "mean squared distance, smaller is better; " + "; ".join(parts)
    return _verdict(float(np.mean(kept))), text


def _matches_fair_svm(files: Files) -> tuple[str, str]:
    """Yes if there are such sets; "some cases" is not a number."""
    path = files["table5"]
    methods = {"fsvm": None, "mean": 2, "both": 2}
    auc, delta = (
        {method: values_of(path, method, measure, d) for method, d in methods.items()}
        for measure in ("auc", "delta")
    )
    names = [n for n in auc["fsvm"] if auc["fsvm"][n] > 0.6]
    by_method = {
        method: [n for n in names if auc[method][n] >= auc["fsvm"][n] - SAME_SCORE]
        for method in ("mean", "both")
    }
    matched = [n for n in names if any(n in some for some in by_method.values())]
    both = sum(
        any(n in some and delta[m][n] <= delta["fsvm"][n] for m, some in by_method.items())
        for n in names
    )
    text = (
        f"AUC within {SAME_SCORE} of the fair SVM's or above on {len(matched)} of the {len(names)} "
        f"sets where that exceeds 0.6 ({', '.join(matched)}); on {both} of them with a Δ no larger"
    )
    return "yes" if matched else "no", text


CHECKS: dict[str, tuple[tuple[str, ...], Callable[[Files], tuple[str, str]]]] = {
    "fairer": (("table1", "table3", "table4"), _fairer),
    "linear_gains": (("table1",), _linear_gains),
    "superfluous": (("table1",), _superfluous),
    "sensitive_to_delta": (("figure2",), _sensitive_to_delta),
    "no_benefit": (("figure2",), _no_benefit),
    "nhanes": (("table2",), _nhanes),
    "hours": (("figure3",), _hours),
    "score_kept": (("table4",), _score_kept),
    "matches_fair_svm": (("table5",), _matches_fair_svm),
}
