"""The appendix of the page: the search for labels and for the definitions of table 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from reproduction.clusters import SIMPLE, STATED, Candidate, Fits, Setup
from reproduction.datasets import registry
from reproduction.markdown import section, table
from reproduction.results import Verdict, texts
from reproduction.search import SEARCHED


def label_search(path: Path) -> str:
    """Best candidates of each file, and how surprising their fit is."""
    frame = pandas.read_csv(path)
    rows = []
    for dataset, mine in frame.groupby("dataset", sort=False):
        scores = mine[mine["measure"] == "score"]
        others = scores.loc[scores["printed"] != dataset, "value"]
        lowest = scores.loc[scores["printed"] == dataset, "value"].min()
        null = f"{others.median():.2f}; {(others < lowest).sum()}" if len(others) else "–"
        own = mine[(mine["printed"] == dataset) & mine["measure"].isin(["score", "overall"])]
        best = own.pivot(index=["rank", "candidate"], columns="measure", values="value").head(3)
        for (rank, candidate), fit in best.iterrows():
            name = [dataset, f"{mine['tried'].iloc[0]}", null] if rank == 1 else ["", "", ""]
            fits = [f"{fit[measure]:.2f}" for measure in ("score", "overall")]
            rows.append([name[0], name[1], candidate, *fits, name[2]])
        if (reading := registry()[dataset].get("printed")) is not None:
            rows.append(["", "", f"*as printed:* {reading['evidence']}", "", "", ""])
    head = ["data", "tried", "best candidates: protected", "fit", "all tables", "others"]
    missing = ", ".join(name for name in SEARCHED if name not in set(frame["dataset"]))
    note = texts()["not_searched"].format(names=missing) if missing else ""
    return section("search", table(head, rows), note)


def definition_search(path: Path) -> str:
    """Say what fits table 4, what a single change of it does, and how surprising the fit is."""
    fits = Fits.read(path)
    rows = [_row(fits, name, candidate) for name, candidate in _named(fits).items()]
    head = ["definition", "fit", "scores", "deviations", "agree"]
    count = fits.wanted[0].size
    others, (chosen, held_out) = fits.others(), fits.halves()
    best = fits.fit().min()
    same = Counter(fits.names[i] for i in chosen)
    summary = texts()["definitions_summary"].format(
        tried=len(fits.names),
        cells=2 * count,
        best=best,
        others_best=min(others),
        others=np.median(others),
        better=sum(value < best for value in others),
        shifts=len(others),
        halves=len(chosen),
        same=same[fits.names[int(fits.fit().argmin())]],
        near=sum(n for c, n in same.items() if c.statistic == "by size" and c.factor == "halved"),
        held_out=np.median(held_out),
    )
    return section("definitions", summary, table(head, rows))


def _named(fits: Fits) -> dict[str, Candidate]:
    """Name the best candidate, single changes of it, and the definitions of the text."""
    best = fits.names[int(fits.fit().argmin())]
    words: dict[str, str] = texts()["definition_words"]
    named = {f"**best of all: {describe(best)}**": best}
    base = best.setup
    changed = [replace(base, **change) for change in _CHANGES]
    changed += [replace(base, k=k) for k in (2, 3, 5, 8, 9, 11, 12, 15, 20) if k != base.k]
    for setup in changed:
        named[_difference(setup, base)] = replace(best, setup=setup)
    named[words["relative"]] = replace(best, score="relative")
    for statistic in ("in cluster", "in class", "between classes", "averaged"):
        named[words[statistic]] = replace(best, statistic=statistic)
    for factor in ("as it is", "doubled", "standard error"):
        named[words[factor]] = replace(best, factor=factor)
    plain = {"statistic": "in cluster", "factor": "as it is"}
    named[words["simple"]] = Candidate(SIMPLE, "relative", **plain)
    named[words["simple_halved"]] = Candidate(SIMPLE, "relative", "in cluster", "halved")
    named[words["stated"]] = Candidate(replace(STATED, scaled=False), "relative", **plain)
    return {name: c for name, c in named.items() if c in fits.names}


_CHANGES: tuple[dict[str, Any], ...] = (
    {"components": 5},
    {"scaled": False},
    {"centres": "training rows"},
    {"equal": True},
)


def _difference(setup: Setup, base: Setup) -> str:
    """Say in what a setup differs from another one."""
    parts: dict[str, Callable[[Setup], str]] = {
        "components": lambda s: f"{s.components} components",
        "scaled": lambda s: "components to unit variance" if s.scaled else "components as they are",
        "centres": lambda s: f"centres of the {s.centres}",
        "equal": lambda s: "clusters of equal size" if s.equal else "k-means",
        "k": lambda s: f"k = {s.k}",
    }
    return ", ".join(
        say(setup) for name, say in parts.items() if getattr(setup, name) != getattr(base, name)
    )


def describe(candidate: Candidate) -> str:
    """Describe a candidate in words."""
    nothing = Setup(0, not candidate.setup.scaled, "", not candidate.setup.equal, 0)
    words: dict[str, str] = texts()["definition_words"]
    parts = (candidate.score, candidate.statistic, candidate.factor)
    return "; ".join([_difference(candidate.setup, nothing), *(words[part] for part in parts)])


def _row(fits: Fits, name: str, candidate: Candidate) -> list[str]:
    place = fits.names.index(candidate)
    values = [f"{fits.fit(of)[place]:.2f}" for of in ("both", "score", "std")]
    scores, deviations = fits.agreeing(place)
    return [name, *values, f"{scores} and {deviations} of {fits.wanted[0].size}"]


def without_cause(cells: Sequence[Verdict]) -> str:
    """List the cells that differ without a cause, those of Calmon et al. apart."""
    rows = [
        [v.table, v.dataset, v.method, v.measure, f"{v.printed:.2f}", v.ours.text()]
        for v in cells
        if v.kind == "unknown" and v.method != "calmon"
    ]
    head = ["table", "data", "method", "measure", "printed", "ours"]
    return section("without_cause", table(head, rows))
