"""docs/reproduction.md, written from the results of a run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._choices import TABLES
from fairpca.datasets import dataset_info
from fairpca.experiments import table2
from fairpca.experiments._experiment import (
    Estimate,
    Results,
    printed,
    printed_clusters,
    read_csv,
    write_atomically,
)
from fairpca.experiments._methods import DATASETS, METHODS, PAPER_METHODS
from fairpca.experiments.search import SEARCHED
from fairpca.report._figures import draw_agreement
from fairpca.report._verdicts import (
    KINDS,
    Verdict,
    cluster_shares,
    judged_definition,
    texts,
    verdicts,
)

Part = Callable[[Path, Sequence[Verdict]], str]


def write_report(out: Path, path: Path) -> Path:
    """Write the page of the reproduction from the files of a run.

    Parameters
    ----------
    out : pathlib.Path
        Folder of the run.
    path : pathlib.Path
        File to write; pictures are copied into ``img/reproduction`` beside it.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca.experiments import Options, run
    >>> from fairpca.report import write_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = run(["figure1"], Options(quick=True), folder)
    ...     write_report(Path(folder), Path(folder) / "page.md").name
    'page.md'
    """
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    present = {name: out / f"{name}.csv" for name in manifest["experiments"]}
    present = {name: file for name, file in present.items() if file.is_file()}
    judged = verdicts(present)
    if judged:
        draw_agreement(judged, out)
    parts = [_head(judged, manifest)]
    tables = (_table1, _table2, _table3, _table4, _table5)
    sections: dict[str, Part] = {"search": _search, **dict(zip(TABLES, tables, strict=True))}
    sections["leak"] = _leak
    parts += [part(present[name], judged) for name, part in sections.items() if name in present]
    parts += [_figures(_copy_pictures(out, path)), _run(manifest)]
    write_atomically(path, "\n".join(parts))
    return path


def _head(judged: Sequence[Verdict], manifest: dict[str, Any]) -> str:
    by_kind = {kind: sum(verdict.kind == kind for verdict in judged) for kind in KINDS}
    head = texts()["head"]
    if not judged:
        head = head.replace(
            "![every printed cell against ours](img/reproduction/agreement.png)", ""
        )
    lines = [texts()["counts"].format(total=len(judged), **by_kind), "", _count_table(judged)]
    lines.append(_agreeing_sets(judged))
    parts = [head.lstrip().format(counts="\n".join(lines))]
    parts += [texts()["quick"]] if manifest["options"]["quick"] else []
    return "\n".join([*parts, texts()["choices"].format(splits=manifest["options"]["splits"])])


def _count_table(judged: Sequence[Verdict]) -> str:
    rows = []
    for table in sorted({verdict.table for verdict in judged}):
        kinds = [verdict.kind for verdict in judged if verdict.table == table]
        rows.append([table, f"{len(kinds)}", *(f"{kinds.count(kind)}" for kind in KINDS)])
    return _markdown(["table", "printed cells", *(texts()["kinds"][kind] for kind in KINDS)], rows)


def _agreeing_sets(judged: Sequence[Verdict]) -> str:
    mine = [verdict for verdict in judged if verdict.table == "table1"]
    names = list(dict.fromkeys(verdict.dataset for verdict in mine))
    good = [n for n in names if all(v.kind == "agrees" for v in mine if v.dataset == n)]
    text: str = texts()["agreeing_sets"]
    listed = ", ".join(good) or "none"
    return text.format(count=len(good), total=len(names), names=listed) if names else ""


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _beside(found: Estimate | None, value: float | None, digits: int = 2) -> str:
    if found is None:
        return "–"
    return found.text(digits) + ("" if value is None else f" ({value:.{digits}f})")


def _row_name(dataset: str, definition: str) -> str:
    return dataset if definition == "released" else f"**{dataset}, as printed**"


def _verdict(judged: Sequence[Verdict], table: str, dataset: str, definition: str) -> str:
    """Say whether a row agrees, and if not why."""
    words: dict[str, str] = texts()["verdicts"]
    if definition != judged_definition(dataset):
        return words["released"]
    mine = [verdict for verdict in judged if (verdict.table, verdict.dataset) == (table, dataset)]
    misses = [verdict for verdict in mine if verdict.kind != "agrees"]
    if not misses:
        return words["agrees"]
    causes: dict[str, list[str]] = {}
    for verdict in misses:
        cause = verdict.cause or words["no_cause"]
        text = f"{verdict.method} {verdict.measure} {verdict.difference:+.2f}"
        causes.setdefault(cause, []).append(text)
    listed = "; ".join(f"{', '.join(v)}: {cause}" for cause, v in causes.items())
    return words["differs"].format(causes=listed)


def _search(path: Path, judged: Sequence[Verdict]) -> str:
    found: dict[tuple[str, str], dict[int, dict[str, str]]] = {}
    for row in read_csv(path):
        place = found.setdefault((row["dataset"], row["printed"]), {})
        best = place.setdefault(int(row["rank"]), {"candidate": row["candidate"]})
        best |= {"tried": row["tried"], row["measure"]: row["value"]}
    rows = []
    for dataset in dict.fromkeys(name for name, _ in found):
        others = [float(v[1]["score"]) for k, v in found.items() if k[0] == dataset != k[1]]
        own = found[dataset, dataset]
        lowest = min(float(best["score"]) for best in own.values())
        null = f"{np.median(others):.2f}; {sum(o < lowest for o in others)}" if others else "–"
        for rank in sorted(own)[:3]:
            best = own[rank]
            name = [dataset, best["tried"], null] if rank == 1 else ["", "", ""]
            fits = [f"{float(best[measure]):.2f}" for measure in ("score", "overall")]
            rows.append([name[0], name[1], best["candidate"], *fits, name[2]])
        if (definition := dataset_info(dataset).printed) is not None:
            rows.append(["", "", f"*as printed:* {definition.evidence}", "", "", ""])
    head = ["data", "tried", "best candidates: protected", "fit", "all tables", "others"]
    missing = ", ".join(name for name in SEARCHED if (name, name) not in found)
    note = texts()["not_searched"].format(names=missing) if missing else ""
    return f"{texts()['sections']['search'].lstrip()}\n{_markdown(head, rows)}\n{note}"


def _table1(path: Path, judged: Sequence[Verdict]) -> str:
    results = Results(path)
    names = ("%var", "lin.", "Gauss.")
    head = ["data", *(f"{method} {name}" for method in PAPER_METHODS for name in names), "verdict"]
    rows = []
    for dataset, definition in results.rows:
        cells = [_row_name(dataset, definition)]
        for method in PAPER_METHODS:
            for measure in ("variance", "linear", "gaussian_released"):
                found = results.get(dataset, definition, method, measure, 2)
                known = printed("table1")[dataset, method, measure.removesuffix("_released")]
                cells.append(_beside(found, known))
        rows.append([*cells, _verdict(judged, "table1", dataset, definition)])
    parts = [texts()["sections"]["table1"].lstrip(), _markdown(head, rows)]
    for d in (2, 5):
        more = texts()["refined_five"] if d == 5 else ""
        parts += [texts()["sections"]["table1_refined"].lstrip().format(d=d, more=more)]
        parts += [_refined_summary(results, d), _refined(results, d)]
    return "\n".join(parts)


def _refined(results: Results, d: int) -> str:
    methods = ("both", "refined_gap", "refined_zero")
    head = ["data", "covariance gap", "%var PCA", "%var both", "%var same gap", "%var zero"]
    head += ["lin. both / same / zero (null)", *(["Gauss. both / same / zero"] if d == 2 else [])]
    rows = []
    for dataset, definition in results.rows:
        gap = results.get(dataset, definition, "both", "cov_gap", d)
        cells = [_row_name(dataset, definition), _beside(gap, None, 3)]
        for method in ("pca", *methods):
            cells.append(_beside(results.get(dataset, definition, method, "variance", d), None))
        for measure in ("linear", "gaussian") if d == 2 else ("linear",):
            values = [results.get(dataset, definition, method, measure, d) for method in methods]
            text = " / ".join("–" if value is None else f"{value.mean:.2f}" for value in values)
            null = results.get(dataset, definition, "refined_gap", f"{measure}_null_mean", d)
            cells.append(text if null is None else f"{text} ({null.mean:.2f})")
        rows.append(cells)
    return _markdown(head, rows)


def _refined_summary(results: Results, d: int) -> str:
    """Say what refined keeps and costs against the paper's SDP, over all sets."""
    changes: dict[str, dict[str, float]] = {}
    for dataset in DATASETS:
        for measure in ("variance", "linear", "gaussian"):
            where = (dataset, judged_definition(dataset))
            before = results.get(*where, "both", measure, d)
            after = results.get(*where, "refined_gap", measure, d)
            if before is not None and after is not None:
                changes.setdefault(measure, {})[dataset] = after.mean - before.mean
    if not changes:
        return ""
    gains = changes["variance"]
    ties = ", ".join(name for name, gain in gains.items() if abs(gain) < 0.005)
    gaussian = np.mean(list(changes.get("gaussian", {"": 0.0}).values()))
    text: str = texts()["refined"].lstrip()
    return text.format(
        d=d,
        more=sum(gain > 0.0 for gain in gains.values()),
        count=len(gains),
        equal=texts()["refined_equal"].format(names=ties) if ties else "",
        mean=np.mean(list(gains.values())),
        median=np.median(list(gains.values())),
        linear=np.mean(list(changes["linear"].values())),
        gaussian=texts()["refined_gaussian"].format(gaussian=gaussian) if d == 2 else "",
    )


def _table2(path: Path, judged: Sequence[Verdict]) -> str:
    shares, facts = cluster_shares(path), {}
    for row in read_csv(path):
        if row["measure"] in ("rows", "over_40", "variance"):
            facts[row["description"], row["method"], row["measure"]] = float(row["value"])
    parts = [texts()["sections"]["table2"].lstrip()]
    head = ["method", "%var", "cluster 1", "cluster 2", "cluster 3", "std"]
    for name in table2.DESCRIPTIONS:
        if (name, "", "rows") not in facts:
            continue
        said, rows = texts()["descriptions"][name], []
        for method in METHODS:
            known = printed_clusters().get(method, [None] * 3)
            found = [shares[name, method, rank] for rank in (1, 2, 3)]
            cells = [texts()["methods"][method], f"{facts[name, method, 'variance']:.2f}"]
            for values, value in zip(found, known, strict=True):
                cells.append(_beside(Estimate.of(values, 0), value))
            rows.append([*cells, f"{np.std([np.mean(values) for values in found]):.2f}"])
        size, over = facts[name, "", "rows"], facts[name, "", "over_40"]
        parts.append(
            f"### {said['title']}\n\n{said['text']}: {size:.0f} rows, {over:.2f} % over 40.\n"
        )
        parts.append(_markdown(head, rows))
    return "\n".join(parts)


def _table3(path: Path, judged: Sequence[Verdict]) -> str:
    results = Results(path)
    methods = (*METHODS, "calmon")
    rows = []
    for dataset, definition in results.rows:
        cells = [_row_name(dataset, definition)]
        for method in methods:
            which = ("ks", 3) if method == "calmon" else ("ks_released", 2)
            found = results.get(dataset, definition, method, *which)
            cells.append(_beside(found, printed("table3").get((dataset, method, "ks"))))
        rows.append([*cells, _verdict(judged, "table3", dataset, definition)])
    head = ["data", *(texts()["methods"][method] for method in methods), "verdict"]
    return f"{texts()['sections']['table3'].lstrip()}\n{_markdown(head, rows)}"


def _table4(path: Path, judged: Sequence[Verdict]) -> str:
    return _two_measures("table4", path, judged, (*METHODS, "calmon"), (("score", 2), ("std", 1)))


def _table5(path: Path, judged: Sequence[Verdict]) -> str:
    methods = ("fsvm", *METHODS, "calmon")
    return _two_measures("table5", path, judged, methods, (("auc", 2), ("delta", 2)))


def _two_measures(
    table: str,
    path: Path,
    judged: Sequence[Verdict],
    methods: Sequence[str],
    measures: Sequence[tuple[str, int]],
) -> str:
    results = Results(path)
    rows = []
    for dataset, definition in results.rows:
        cells = [_row_name(dataset, definition)]
        for method in methods:
            parts = []
            for measure, digits in measures:
                value = printed(table).get((dataset, method, measure))
                two = results.get(dataset, definition, method, measure, 2)
                first = two or results.get(dataset, definition, method, measure)
                more = results.get(dataset, definition, method, measure, 5) if two else None
                extra = "" if more is None else f" / {more.mean:.{digits}f}"
                parts.append(_beside(first, value, digits) + extra)
            cells.append("; ".join(parts))
        rows.append([*cells, _verdict(judged, table, dataset, definition)])
    head = ["data", *(texts()["methods"][method] for method in methods), "verdict"]
    return f"{texts()['sections'][table].lstrip()}\n{_markdown(head, rows)}"


def _leak(path: Path, judged: Sequence[Verdict]) -> str:
    results = Results(path)
    head = ["data"]
    for d in (2, 5):
        head += [f"DeltaFairPCA, d = {d}", f"FairPCA, d = {d}"]
    rows = []
    for dataset, definition in results.rows:
        cells = [_row_name(dataset, definition)]
        for d, method in itertools.product((2, 5), ("delta", "same_leak")):
            names = ("variance", "linear", "gaussian")
            found = [results.get(dataset, definition, method, name, d) for name in names]
            texts_of = [_beside(value, None, 1 if i == 0 else 2) for i, value in enumerate(found)]
            cells.append("; ".join(texts_of))
        rows.append(cells)
    return (
        f"{texts()['sections']['leak'].lstrip()}\n{_leak_summary(results)}\n{_markdown(head, rows)}"
    )


def _leak_summary(results: Results) -> str:
    """Say where FairPCA could be made as tight, and what it keeps there."""
    parts = []
    for d in (2, 5):
        gains, never = [], 0
        for where in results.rows:
            pair = [
                [results.get(*where, method, name, d) for name in ("variance", "gaussian")]
                for method in ("delta", "same_leak")
            ]
            (kept, leak), (other, other_leak) = pair
            if kept is None or leak is None or other is None or other_leak is None:
                continue
            gains.append(kept.mean - other.mean)
            never += other_leak.mean > leak.mean + 0.01
        if gains:
            text: str = texts()["leak_summary"]
            median = round(float(np.median(gains)), 1) + 0.0  # no negative zero
            parts.append(text.format(d=d, count=len(gains), never=never, median=median))
    return "\n".join(parts)


def _copy_pictures(out: Path, path: Path) -> list[str]:
    folder = path.parent / "img" / "reproduction"
    names = []
    for picture in sorted([*out.glob("figure*.png"), *out.glob("agreement.png")]):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / picture.name, picture.read_bytes())
        names.append(picture.stem)
    return names


def _figures(pictures: Sequence[str]) -> str:
    parts = [texts()["sections"]["figures"]]
    for name, text in texts()["figures"].items():
        if name in pictures:
            parts.append(f"![{name}](img/reproduction/{name}.png)\n\n{text}\n")
    return "\n".join(parts)


def _run(manifest: dict[str, Any]) -> str:
    text: str = texts()["run"].lstrip()
    return text.format(
        packages=", ".join(f"{name} {found}" for name, found in manifest["packages"].items()),
        options=", ".join(f"{name} = {value}" for name, value in manifest["options"].items()),
        python=manifest["python"],
        seed=manifest["seed"],
    )
