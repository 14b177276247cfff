"""What the page begins with: whether the method works, the claims, and how many cells agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reproduction.claims import SMALL, changes, check_claims, values_of
from reproduction.markdown import section, table
from reproduction.methods import PAPER_METHODS
from reproduction.results import KINDS, UNREADABLE, Verdict, texts

Verdicts = Sequence[Verdict]


def front(cells: Verdicts, files: dict[str, Path]) -> str:
    """Words, picture and claims, as far as their tables are among the files."""
    parts = [texts()["head"].lstrip()]
    if "table1" in files:
        parts.append(_works(files["table1"]))
    claims = check_claims(files, texts()["claims"])
    if claims:
        rows = [[claim.text, f"**{claim.verdict}**", claim.figures] for claim in claims]
        parts.append(section("claims", table(["the paper says", "here", "figures"], rows)))
    if cells:
        parts.append(_counts(cells))
    return "\n".join(parts)


def _works(path: Path) -> str:
    """Say in a paragraph what the constraints do to Δ and to the variance."""
    values = {
        (method, measure): values_of(path, method, measure)
        for method in PAPER_METHODS
        for measure in ("variance", "linear", "gaussian_released")
    }
    means = {f"{m}_{k}": np.mean(list(v.values())) for (m, k), v in values.items()}
    pca = values["pca", "variance"]
    shares = {
        f"{method}_share": np.median([100.0 * values[method, "variance"][n] / pca[n] for n in pca])
        for method in ("mean", "both")
    }
    lower = changes(path, "linear", "pca", "mean") < 0.0
    not_lower = [
        name
        for name, change in zip(pca, changes(path, "gaussian_released", "pca", "both"), strict=True)
        if change > -SMALL
    ]
    verdict = "yes" if lower.mean() >= 0.8 else "partly"
    return section("works").format(
        verdict=texts()["works"][verdict],
        lower=int(lower.sum()),
        count=len(lower),
        not_lower=", ".join(not_lower) or "no set",
        **means,
        **shares,
    )


def _counts(cells: Verdicts) -> str:
    by_kind = {kind: sum(verdict.kind == kind for verdict in cells) for kind in KINDS}
    misses = [verdict for verdict in cells if verdict.kind != "agrees"]
    unreadable = [v for v in misses if v.dataset in UNREADABLE]
    calmon = [v for v in misses if v.method == "calmon" and v.dataset not in UNREADABLE]
    numbers = {
        "total": len(cells),
        **by_kind,
        "misses": len(misses),
        "unreadable": len(unreadable),
        "calmon": len(calmon),
        "rest": len(misses) - len(unreadable) - len(calmon),
        "by_order": sum(verdict.by_order for verdict in cells),
    }
    text = section("counts").format(**numbers)
    return "\n".join([text, _count_table(cells), _agreeing_sets(cells), ""])


def _count_table(cells: Verdicts) -> str:
    rows = []
    for name in sorted({verdict.table for verdict in cells}):
        kinds = [verdict.kind for verdict in cells if verdict.table == name]
        rows.append([name, f"{len(kinds)}", *(f"{kinds.count(kind)}" for kind in KINDS)])
    return table(["table", "printed cells", *(texts()["kinds"][kind] for kind in KINDS)], rows)


def _agreeing_sets(cells: Verdicts) -> str:
    mine = [verdict for verdict in cells if verdict.table == "table1"]
    names = list(dict.fromkeys(verdict.dataset for verdict in mine))
    good = [n for n in names if all(v.kind == "agrees" for v in mine if v.dataset == n)]
    text: str = texts()["agreeing_sets"]
    listed, left = (
        ", ".join(part) or "none" for part in (good, [n for n in names if n not in good])
    )
    numbers = {"count": len(good), "total": len(names), "names": listed, "left": left}
    return text.format(**numbers) if names else ""
