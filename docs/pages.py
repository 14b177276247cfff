"""Pages that every build writes anew: tables of figures, the reference, files of the root."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import figures
import measured
import measured_inputs

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = {
    "fairpca": "What most programs need",
    "fairpca.estimators": "Estimators, and models in files",
    "fairpca.metrics": "Measures of how well groups are predicted",
    "fairpca.report": "Displays and pages",
    "fairpca.moments": "Moments and contrasts",
    "fairpca.tables": "Files, streams, databases and engines",
    "fairpca.datasets": "Data",
    "fairpca.solvers": "The solvers themselves",
    "fairpca.rows": "Rows with groups, strata and weights",
    "fairpca.exceptions": "Errors and warnings",
}


WIDE = (
    *("comparison", "benchmarks", "api/index", "guides/which-estimator", "guides/two-senses"),
    *("guides/kernel", "guides/raw-adult", "design/metrics", "design/tight-relaxation"),
)


class ExampleOrder:
    """Examples in the order in which a newcomer wants them."""

    NAMES = (
        *("first_steps", "choosing_a_penalty", "audit", "certificate", "intersections", "strata"),
        *(
            "gaussian_adversary",
            "group_loss",
            "activity_clusters",
            "batches",
            "kernel",
            "streaming",
        ),
    )

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        """Return the place of an example; new ones come last."""
        name = filename.removeprefix("plot_").removesuffix(".py")
        return self.NAMES.index(name) if name in self.NAMES else len(self.NAMES)


def write_all(docs: Path) -> None:
    """Write docs/api and the pages of the root, and fill in the figures of all other pages."""
    api = docs / "api"
    api.mkdir(exist_ok=True)
    _write(api / "index.rst", reference())
    names = {f"{package}.{name}" for package, names in public_names().items() for name in names}
    for page in (api / "generated").glob("*.rst"):
        if page.stem not in names:
            page.unlink()  # of an earlier build
    _write(docs / "changelog.md", _from_root("CHANGELOG.md"))
    _write(docs / "contributing.md", _from_root("CONTRIBUTING.md"))
    for page, text in filled_pages(docs).items():
        _write(page, text)


def to_gallery(app, name, source):
    """Turn links to scripts and kept pictures of examples into links to what the build made."""
    text = source[0].replace("](../src/fairpca/__init__.py)", "](/api/index.rst)")
    text = re.sub(r"\]\((?:\.\./)+examples/(plot_\w+)\.py", r"](/gallery/\1.rst", text)
    made = r"](/gallery/images/sphx_glr_\1"
    source[0] = re.sub(r"\]\((?:\.\./)*img/gallery/(plot_\w+\.png)", made, text)


def keep_pictures(docs: Path) -> None:
    """Copy the pictures of the gallery that pages show to where the repository shows them."""
    for page in docs.rglob("*.md"):
        for name in re.findall(r"img/gallery/(plot_\w+\.png)", page.read_text(encoding="utf-8")):
            made = docs / "gallery" / "images" / f"sphx_glr_{name}"
            (docs / "img" / "gallery").mkdir(exist_ok=True)
            (docs / "img" / "gallery" / name).write_bytes(made.read_bytes())


# Figures stand in the pages themselves, so that they read well in the repository too; this says
# which benchmark they come from, and a test compares them with it.
PIECE = re.compile(r"<!-- figures: (\w+) -->\n.*?<!-- end of figures -->", re.DOTALL)


def filled_pages(docs: Path) -> dict[Path, str]:
    """Return the text of every page that shows figures, as the results of benchmarks have them."""
    pieces = benchmark_tables()
    pieces["citing"] = _section(ROOT / "README.md", "How to cite")

    def fill(match: re.Match[str]) -> str:
        text = pieces[match[1]].strip("\n")
        return f"<!-- figures: {match[1]} -->\n{text}\n\n<!-- end of figures -->"

    texts = {page: page.read_text(encoding="utf-8") for page in sorted(docs.rglob("*.md"))}
    return {page: PIECE.sub(fill, text) for page, text in texts.items() if PIECE.search(text)}


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
    """Names by package, each object once, in the first package that exports it."""
    seen, exported = set(), {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = getattr(module, "__all__", None) or _defined_in(module)
        exported[package] = []
        for name in names:
            thing = getattr(module, name)
            is_documented = inspect.isclass(thing) or inspect.isroutine(thing)
            if is_documented and thing.__name__ != name and thing.__name__ in names:
                continue  # an older name of the same thing
            if not is_documented or id(thing) in seen or not thing.__module__.startswith("fairpca"):
                continue
            seen.add(id(thing))
            exported[package].append(name)
    return exported


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
        "Every public name, by the package it lives in.",
        "",
    ]
    for package, names in public_names().items():
        title = f"``{package}``: {PACKAGES[package][0].lower()}{PACKAGES[package][1:]}"
        parts += [title, "-" * len(title), "", f".. currentmodule:: {package}", ""]
        parts += [".. autosummary::", "   :toctree: generated", ""]
        parts += [f"   {name}" for name in names] + [""]
    return "\n".join(parts)


PIECES = measured.PIECES | measured_inputs.PIECES

# What the page of benchmarks shows of each file: its pieces, or its rows as they are.
SHOWN = {
    "frontier": (),
    "frontier_summary": ("frontier_claims",),
    "worst": ("worst_speed", "worst_credit"),
    "kernel_speed": ("kernel_speed",),
    "kernel_question": ("kernel_average", "kernel_difference"),
    "frontier_speed": ("frontier_speed",),
    "promise_made": (),
    "promise_summary": ("promise",),
    "promise_sets": ("promise_sets",),
    "promise_restarts": ("promise_restarts",),
    "private": ("private",),
    "target": ("target_danger",),
    "target_compare_sets": (),
    "target_changes": ("target_changes",),
    "target_compare": ("target_compare",),
    "sparse": ("sparse_claims", "sparse_5"),
    "sparse_speed": ("sparse_speed",),
    "sparse_leakage": ("sparse_leakage",),
    "scale": ("scale_passes", "scale_memory", "scale_shapes"),
    "comparison": (),
    "batches": ("batches",),
    "embeddings": ("embeddings",),
    "inputs": ("inputs_rates", "inputs_memory", "inputs_copy", "inputs_stage"),
}
TITLES = {
    "batches": "Components without a batch",
    "embeddings": "An attribute removed from embeddings",
    "comparison": "Other tools on the same rows",
    "inputs": "Streams and databases",
    "frontier": "What each method keeps, and its leakage",
    "frontier_summary": "How often DeltaFairPCA is matched",
    "frontier_speed": "Speed of DeltaFairPCA",
    "kernel_question": "Does a kernel help against Gaussian adversaries?",
    "kernel_speed": "Speed of FairKernelPCA",
    "metrics": "Speed of the measures",
    "promise_made": "What DeltaFairPCA promises on made tables, fit by fit",
    "promise_summary": "Promises of DeltaFairPCA against the truth",
    "promise_sets": "Promises of DeltaFairPCA on larger sets",
    "promise_restarts": "The search of DeltaFairPCA against a longer one",
    "private": "Moments with noise",
    "target": "A target and leakage that is not linear",
    "target_compare_sets": "Ways to keep a target, set by set",
    "target_changes": "What a target changes",
    "target_compare": "A target against other ways to a model",
    "target_time": "Time of a fit with a target, in seconds",
    "scale": "Millions of rows",
    "contrasts": "Joint groups under limits on covariances",
    "sets": "Certified gaps on the paper's data sets",
    "shapes": "Cost of a certified fit, in eigendecompositions",
    "sparse": "Sparse components on the paper's data sets",
    "sparse_leakage": "Leakage of sparse components",
    "sparse_speed": "Speed of sparse components",
    "solvers": "Solvers against their targets",
    "wine": "The paper's program on wine quality",
    "worst": "The group that keeps the least",
}
ELSEWHERE = "The tables are on the page about [other tools](comparison.md).\n"


def benchmark_tables() -> dict[str, str]:
    """Return pieces of Markdown from what the benchmarks left, and one with all of them."""
    found = {}
    for name, (source, make) in PIECES.items():
        document = figures.read(source)
        found[name] = make(document["rows"]) if document else _missing(source)
    for source in {source for source, _ in PIECES.values()}:
        document = figures.read(source)
        found[f"{source}_facts"] = figures.facts(document) if document else ""
    parts = []
    for path in sorted(figures.RESULTS.glob("*.json")):
        document = figures.read(path.stem)
        shown = SHOWN.get(path.stem)
        if shown is None:
            text = figures.plain(document["rows"])
            found[f"results_{path.stem}"] = figures.facts(document) + "\n" + text
        else:
            text = "\n".join(found[name] for name in shown) or ELSEWHERE
        title = TITLES.get(path.stem, figures.spoken(path.stem).capitalize())
        parts.append(f"## {title}\n\n{figures.facts(document)}\n{text}")
    found["results_all"] = "\n".join(parts)
    return found


def _missing(source: str) -> str:
    return f"*Not measured yet: `benchmarks/results/{source}.json` is not there.*\n"


if __name__ == "__main__":
    if (Path(__file__).parent / "gallery").exists():
        keep_pictures(Path(__file__).parent)
    for path, content in filled_pages(Path(__file__).parent).items():
        _write(path, content)
