"""Pages that every build writes anew: tables of figures, the reference, files of the root."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

ROOMS = {
    "fairpca": "What most programs need",
    "fairpca.estimators": "Estimators, and models in files",
    "fairpca.metrics": "Measures of what a representation gives away",
    "fairpca.report": "Displays and pages",
    "fairpca.moments": "Moments and contrasts",
    "fairpca.tables": "Files, streams, databases and engines",
    "fairpca.datasets": "Data",
    "fairpca.baselines": "What the paper compares with",
    "fairpca.experiments": "The paper's experiments",
    "fairpca.solvers": "The solvers themselves",
    "fairpca.adversary": "The adversary of DeltaFairPCA",
    "fairpca.kernels": "Feature maps of kernels",
    "fairpca.rows": "Rows with groups, strata and weights",
    "fairpca.linalg": "Small matrices",
    "fairpca.exceptions": "Errors and warnings",
}


class ExampleOrder:
    """Examples in the order in which a newcomer wants them."""

    NAMES = (
        *("first_steps", "choosing_a_price", "audit", "certificate", "intersections", "strata"),
        *("gaussian_attacker", "worst_served", "activity_clusters", "kernel", "streaming"),
    )

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        """Return the place of an example; new ones come last."""
        name = filename.removeprefix("plot_").removesuffix(".py")
        return self.NAMES.index(name) if name in self.NAMES else len(self.NAMES)


def write_all(docs: Path) -> None:
    """Write docs/api and docs/built."""
    built, api = docs / "built", docs / "api"
    built.mkdir(exist_ok=True)
    api.mkdir(exist_ok=True)
    _write(api / "index.rst", reference())
    _write(built / "changelog.md", _from_root("CHANGELOG.md"))
    _write(built / "contributing.md", _from_root("CONTRIBUTING.md"))
    _write(built / "citing.md", _section(ROOT / "README.md", "How to cite"))
    for name, text in benchmark_tables().items():
        _write(built / f"{name}.md", text)


def _write(path: Path, text: str) -> None:
    """Write a file only where it changed, so that Sphinx does not read it again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _from_root(name: str) -> str:
    """Return a page of the root, with its links seen from the folder of the site."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = text.replace("(CHANGELOG.md)", "(changelog.md)")
    return text.replace("(CONTRIBUTING.md)", "(contributing.md)").replace("](docs/", "](")


def _section(path: Path, title: str) -> str:
    text = path.read_text(encoding="utf-8")
    return re.search(rf"## {title}\n(.*?)(\n## |\Z)", text, re.DOTALL)[1]


def public_names() -> dict[str, list[str]]:
    """Names by room, each object once, in the first room that exports it."""
    seen, found = set(), {}
    for room in ROOMS:
        module = importlib.import_module(room)
        names = getattr(module, "__all__", None) or _defined_in(module)
        found[room] = []
        for name in names:
            thing = getattr(module, name)
            is_documented = inspect.isclass(thing) or inspect.isroutine(thing)
            if not is_documented or id(thing) in seen or not thing.__module__.startswith("fairpca"):
                continue
            seen.add(id(thing))
            found[room].append(name)
    return found


def _defined_in(module) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and thing.__module__ == module.__name__ and name[0] != "_"
    ]


def reference() -> str:
    """Return the index of the API reference."""
    parts = [
        "API reference",
        "=============",
        "",
        "Every public name, by the room it lives in.",
        "",
    ]
    for room, names in public_names().items():
        title = f"{ROOMS[room]} (``{room}``)"
        parts += [title, "-" * len(title), "", f".. currentmodule:: {room}", ""]
        parts += [".. autosummary::", "   :toctree: generated", ""]
        parts += [f"   {name}" for name in names] + [""]
    return "\n".join(parts)


def benchmark_tables() -> dict[str, str]:
    """Return a piece of Markdown for each benchmark that left its figures."""
    found = {}
    for path in sorted(RESULTS.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if path.stem == "frontier":
            for d in (2, 5):
                found[f"frontier_{d}"] = frontier_table(document["rows"], d)
            found["frontier_facts"] = _facts(document)
        elif isinstance(document.get("rows"), list) and document["rows"]:
            found[f"results_{path.stem}"] = _facts(document) + "\n" + _plain_table(document["rows"])
    found.setdefault("results_wine", "*Not measured yet: `python benchmarks/wine.py`.*\n")
    found["results_all"] = "\n".join(
        f"## {name.removeprefix('results_')}\n\n{text}"
        for name, text in found.items()
        if name.startswith("results_")
    )
    return found


def _facts(document: dict) -> str:
    versions = ", ".join(f"{name} {text}" for name, text in document["versions"].items())
    note = f" Note: {document['note']}." if document.get("note") else ""
    return (
        f"`python benchmarks/{document['benchmark']}.py`, Python {document['python']}, {versions}; "
        f"{document['cores']} cores, load {document['load']}.{note}\n"
    )


def _plain_table(rows: list[dict]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[_cell(row.get(name)) for name in names] for row in rows]
    return markdown([name.replace("_", " ") for name in names], lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value).strip().replace("|", "\\|")


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


# Title of a column, and the method and price of its points in frontier.json.
PEERS = {
    "PCA": ("PCA", 0.0),
    "paper's program": ("paper's SDP", 0.01),
    "LEACE, then PCA": ("LEACE + PCA", 0.0),
    "MMD penalty": ("MMD penalty", 10.0),
    "`FairPCA`": ("FairPCA", 1.0),
}
DELTA = 0.2


def frontier_table(rows: list[dict], d: int) -> str:
    """Return variance in percent and leak of every method, data set by data set."""
    head = [f"d = {d}", *PEERS, f"`delta={DELTA:g}`", "Δ̂", "Gaussian SVM, trees, network"]
    lines = []
    for name in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if (row["data"], row["d"]) == (name, d)]
        if not mine:
            continue
        cells = [name.replace("_", " ")]
        for asked in PEERS.values():
            (point,) = [row for row in mine if (row["method"], row["price"]) == asked]
            cells.append(_point(point))
        path = [row for row in mine if row["method"] == "DeltaFairPCA"]
        reached = [row for row in path if row["delta"] <= DELTA]
        chosen = reached[0] if reached else min(path, key=lambda row: row["delta"])
        cells.append(_point(chosen) + ("" if reached else " (not reached)"))
        cells.append(f"{chosen['delta']:.2f} ± {chosen['error']:.2f}")
        cells.append(", ".join(f"{chosen[who]:.2f}" for who in ("svm", "trees", "net")))
        lines.append(cells)
    return markdown(head, lines)


def _point(row: dict) -> str:
    return f"{100 * row['variance']:.1f} / {max(row['svm'], row['trees'], row['net']):.2f}"
