"""docs/reproduction.md and its appendix, written from the results of a run."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from reproduction.activity import DESCRIPTIONS
from reproduction.appendix import definition_search, label_search, without_cause
from reproduction.datasets import UCI
from reproduction.figures import draw_agreement, draw_overview
from reproduction.front import front
from reproduction.markdown import kept_section, section, table
from reproduction.methods import METHODS, PAPER_METHODS
from reproduction.results import (
    Estimate,
    Results,
    Verdict,
    agreeing,
    cluster_shares,
    compared_definition,
    printed,
    printed_clusters,
    texts,
    verdicts,
)

Verdicts = Sequence[Verdict]


def write_page(out: Path, path: Path) -> list[Path]:
    """Write the page and its appendix from the files in `out`; pictures go to img/reproduction.

    A section whose numbers are not in `out` is kept from the page that is there.
    """
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    files = {name: out / f"{name}.csv" for name in manifest["experiments"]}
    cells = verdicts(files)
    if cells:
        draw_agreement(cells, out)
    if "table1" in files:
        draw_overview(files["table1"], out)
    path.parent.mkdir(parents=True, exist_ok=True)
    body, kept = _sections(SECTIONS, files, cells, path)
    tail = [_figures(_copy_pictures(out, path))]
    main = [front(cells, files), _choices(manifest), *body, *tail]
    more = path.with_name(f"{path.stem}-search.md")
    extra, more_kept = _sections(APPENDIX, files, cells, more)
    main.append(_run(manifest, [*kept, *more_kept]))
    more.write_text("\n".join([texts()["appendix"].lstrip(), *extra]), encoding="utf-8")
    path.write_text("\n".join(main), encoding="utf-8")
    return [path, more]


def _sections(
    parts: Mapping[str, Callable[[Path, Verdicts], str]],
    files: dict[str, Path],
    cells: Verdicts,
    path: Path,
) -> tuple[list[str], list[str]]:
    """Sections of a page, and the names of those that are kept as they were."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    written, kept = [], []
    for name, part in parts.items():
        if name in files:
            written.append(part(files[name], cells))
        elif name in texts()["sections"] and (text := kept_section(before, name)):
            written.append(text)
            kept.append(name)
    if parts is APPENDIX and cells:
        written.append(without_cause(cells))
    return written, kept


def _choices(manifest: dict[str, Any]) -> str:
    text: str = section("choices").format(splits=manifest["options"]["splits"])
    quick = [texts()["quick"]] if manifest["options"]["quick"] else []
    return "\n".join([*quick, text])


def _with_printed(ours: Estimate | None, value: float | None, digits: int = 2) -> str:
    if ours is None:
        return "–"
    return ours.text(digits) + ("" if value is None else f" ({value:.{digits}f})")


def _row_name(dataset: str, definition: str) -> str:
    return dataset if definition == "released" else f"**{dataset}, as printed**"


def _row_verdict(cells: Verdicts, name: str, dataset: str, definition: str) -> str:
    """Say whether a row agrees, and if not why."""
    words: dict[str, str] = texts()["verdicts"]
    if definition != compared_definition(dataset):
        return words["released"]
    mine = [verdict for verdict in cells if (verdict.table, verdict.dataset) == (name, dataset)]
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


def _table1(path: Path, cells: Verdicts) -> str:
    results = Results(path)
    names = ("%var", "lin.", "Gauss.")
    head = ["data", *(f"{method} {name}" for method in PAPER_METHODS for name in names), "verdict"]
    rows = []
    for dataset, definition in results.rows:
        row = [_row_name(dataset, definition)]
        for method in PAPER_METHODS:
            for measure in ("variance", "linear", "gaussian_released"):
                ours = results.get(dataset, definition, method, measure, 2)
                value = printed("table1")[dataset, method, measure.removesuffix("_released")]
                row.append(_with_printed(ours, value))
        rows.append([*row, _row_verdict(cells, "table1", dataset, definition)])
    parts = [section("table1", table(head, rows))]
    for d in (2, 5):
        more = texts()["refined_five"] if d == 5 else ""
        parts += [section("table1_refined").format(d=d, more=more)]
        parts += [_refined_summary(results, d), _refined(results, d)]
    return "\n".join(parts)


def _refined(results: Results, d: int) -> str:
    methods = ("both", "refined_gap", "refined_zero")
    head = ["data", "covariance gap", "%var PCA", "%var both", "%var same gap", "%var zero"]
    head += ["lin. both / same / zero (null)", *(["Gauss. both / same / zero"] if d == 2 else [])]
    rows = []
    for where in results.rows:
        row = [_row_name(*where), _with_printed(results.get(*where, "both", "cov_gap", d), None, 3)]
        for method in ("pca", *methods):
            row.append(_with_printed(results.get(*where, method, "variance", d), None))
        for measure in ("linear", "gaussian") if d == 2 else ("linear",):
            values = [results.get(*where, method, measure, d) for method in methods]
            text = " / ".join("–" if value is None else f"{value.mean:.2f}" for value in values)
            null = results.get(*where, "refined_gap", f"{measure}_null_mean", d)
            row.append(text if null is None else f"{text} ({null.mean:.2f})")
        rows.append(row)
    return table(head, rows)


def _refined_summary(results: Results, d: int) -> str:
    """Say what refined keeps and costs against the paper's SDP, over all sets."""
    changes: dict[str, dict[str, float]] = {}
    for dataset in UCI:
        for measure in ("variance", "linear", "gaussian"):
            where = (dataset, compared_definition(dataset))
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


def _table2(path: Path, cells: Verdicts) -> str:
    shares, frame = cluster_shares(path), pandas.read_csv(path).fillna({"method": ""})
    facts = frame.set_index(["description", "method", "measure"])["value"]
    parts = [section("table2")]
    head = ["method", "%var", "cluster 1", "cluster 2", "cluster 3", "std"]
    for name in DESCRIPTIONS:
        rows = []
        for method in METHODS:
            values = printed_clusters().get(method, [None] * 3)
            ours = [shares[name, method, rank] for rank in (1, 2, 3)]
            row = [texts()["methods"][method], f"{facts[name, method, 'variance'].item():.2f}"]
            for seeds, value in zip(ours, values, strict=True):
                row.append(_with_printed(Estimate.of(seeds, 0), value))
            rows.append([*row, f"{np.std([np.mean(seeds) for seeds in ours]):.2f}"])
        words = texts()["descriptions"][name]
        size, over = (facts[name, "", measure].item() for measure in ("rows", "over_40"))
        parts.append(
            f"### {words['title']}\n\n{words['text']}: {size:.0f} rows, {over:.2f} % over 40.\n"
        )
        parts.append(table(head, rows))
    return "\n".join(parts)


def _table3(path: Path, cells: Verdicts) -> str:
    results = Results(path)
    methods = (*METHODS, "calmon")
    rows = []
    for dataset, definition in results.rows:
        row = [_row_name(dataset, definition)]
        for method in methods:
            which = ("ks", 3) if method == "calmon" else ("ks_released", 2)
            ours = results.get(dataset, definition, method, *which)
            row.append(_with_printed(ours, printed("table3").get((dataset, method, "ks"))))
        rows.append([*row, _row_verdict(cells, "table3", dataset, definition)])
    head = ["data", *(texts()["methods"][method] for method in methods), "verdict"]
    return section("table3", table(head, rows))


def _table4(path: Path, cells: Verdicts) -> str:
    digits, stated = {"score": 2, "std": 1}, {"std": "std_stated"}
    printed_too = _two_measures("table4", path, cells, (*METHODS, "calmon"), digits, stated)
    return "\n".join([printed_too, _with_five_clusters(path, digits)])


def _with_five_clusters(path: Path, digits: dict[str, int]) -> str:
    """Count and show the values of the simpler definition of table 4."""
    results, rows = Results(path), []
    for dataset, definition in results.rows:
        if definition != compared_definition(dataset):
            continue
        row = [_row_name(dataset, definition)]
        for method in PAPER_METHODS:
            values = printed("table4")
            row.append(
                "; ".join(
                    _with_printed(
                        results.get(dataset, definition, method, f"{measure}_simple", 2),
                        values[dataset, method, measure],
                        digits[measure],
                    )
                    for measure in digits
                )
            )
        rows.append(row)
    counts = {
        f"{prefix}{name}": agreeing(path, f"{measure}{suffix}")
        for prefix, suffix in (("", "_simple"), ("found_", ""))
        for name, measure in (("scores", "score"), ("deviations", "std"))
    }
    text = section("table4_simple").format(count=len(PAPER_METHODS) * len(rows), **counts)
    head = ["data", *(texts()["methods"][method] for method in PAPER_METHODS)]
    return "\n".join([text, table(head, rows)])


def _table5(path: Path, cells: Verdicts) -> str:
    return _two_measures(
        "table5", path, cells, ("fsvm", *METHODS, "calmon"), {"auc": 2, "delta": 2}
    )


def _two_measures(
    name: str,
    path: Path,
    cells: Verdicts,
    methods: Sequence[str],
    measures: dict[str, int],
    stated: dict[str, str] | None = None,
) -> str:
    """Two measures with their digits in every cell; as the text says, d = 5, after a slash."""
    results = Results(path)
    rows = []
    for dataset, definition in results.rows:
        row = [_row_name(dataset, definition)]
        for method in methods:
            parts = []
            for measure, digits in measures.items():
                value = printed(name).get((dataset, method, measure))
                two = results.get(dataset, definition, method, measure, 2)
                first = two or results.get(dataset, definition, method, measure)
                of_five = (stated or {}).get(measure, measure)
                more = results.get(dataset, definition, method, of_five, 5) if two else None
                extra = "" if more is None else f" / {more.mean:.{digits}f}"
                parts.append(_with_printed(first, value, digits) + extra)
            row.append("; ".join(parts))
        rows.append([*row, _row_verdict(cells, name, dataset, definition)])
    head = ["data", *(texts()["methods"][method] for method in methods), "verdict"]
    return section(name, table(head, rows))


def _leakage(path: Path, cells: Verdicts) -> str:
    results = Results(path)
    digits = {"variance": 1, "linear": 2, "gaussian": 2}
    rows = []
    for where in results.rows:
        row = [_row_name(*where)]
        for d, method in itertools.product((2, 5), ("delta", "same_leakage")):
            ours = {name: results.get(*where, method, name, d) for name in digits}
            row.append("; ".join(_with_printed(ours[n], None, digits[n]) for n in digits))
        rows.append(row)
    head = ["data", *(f"{name}, d = {d}" for d in (2, 5) for name in ("DeltaFairPCA", "FairPCA"))]
    return section("leakage", _leakage_summary(results), table(head, rows))


def _leakage_summary(results: Results) -> str:
    """Say on how many sets FairPCA reaches the leakage, and how much more DeltaFairPCA keeps."""
    parts = []
    for d in (2, 5):
        gains, never = [], 0
        for where in results.rows:
            (kept, leaks), (other, other_leaks) = (
                [results.get(*where, method, name, d) for name in ("variance", "gaussian")]
                for method in ("delta", "same_leakage")
            )
            if kept is None or leaks is None or other is None or other_leaks is None:
                continue
            gains.append(kept.mean - other.mean)
            never += other_leaks.mean > leaks.mean + 0.01
        if gains:
            text: str = texts()["leakage_summary"]
            median = round(float(np.median(gains)), 1) + 0.0  # no negative zero
            parts.append(text.format(d=d, count=len(gains), never=never, median=median))
    return "\n".join(parts)


def _copy_pictures(out: Path, path: Path) -> list[str]:
    folder = path.parent / "img" / "reproduction"
    names = ("figure*.png", "agreement.png", "overview.png")
    pictures = sorted(picture for name in names for picture in out.glob(name))
    for picture in pictures:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, folder / picture.name)
    return [picture.stem for picture in pictures]


def _figures(pictures: Sequence[str]) -> str:
    parts = [texts()["sections"]["figures"]]
    for name, text in texts()["figures"].items():
        if name in pictures:
            parts.append(f"![{name}](img/reproduction/{name}.png)\n\n{text}\n")
    return "\n".join(parts)


def _run(manifest: dict[str, Any], kept: Sequence[str]) -> str:
    text: str = texts()["run"].lstrip()
    packages = ", ".join(f"{name} {number}" for name, number in manifest["packages"].items())
    options = ", ".join(f"{name} = {value}" for name, value in manifest["options"].items())
    by_code: dict[str, list[str]] = {}
    for name, code in manifest["experiments"].items():
        by_code.setdefault(code, []).append(name)
    made = "; ".join(f"{', '.join(names)} by code {code}" for code, names in by_code.items())
    return text.format(
        packages=packages,
        options=options,
        python=manifest["python"],
        seed=manifest["seed"],
        made=made,
        kept=texts()["kept"].format(names=", ".join(kept)) if kept else "",
    )


SECTIONS = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "table5": _table5,
    "leakage": _leakage,
}
APPENDIX: dict[str, Callable[[Path, Verdicts], str]] = {
    "definitions": lambda path, cells: definition_search(path),
    "search": lambda path, cells: label_search(path),
}
