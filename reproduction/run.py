"""Compute tables and figures cell by cell with joblib: in processes, each cell once."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import pandas
from threadpoolctl import threadpool_limits

import fairpca
from reproduction import activity, clusters, search, tables
from reproduction.datasets import UCI, check_files, registry
from reproduction.methods import FULL, QUICK, SEED, fit_split

_HERE = Path(__file__).parent
_PACKAGES = ("fairpca", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")
_DRAWING = (
    "__main__.py", "appendix.py", "claims.py", "figures.py", "front.py", "markdown.py", "page.py",
    "run.py",
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its cells, the function that computes one, and what it needs."""

    compute: Callable[..., tables.Rows]  # arguments of a cell, effort and cache to rows
    cells: Callable[[int], list[dict[str, Any]]]  # number of splits to arguments of the cells
    columns: tuple[str, ...]
    datasets: tuple[str, ...] = ()
    components: tuple[int, ...] = ()  # of the fits that the tables share


EXPERIMENTS = {
    "table1": Experiment(tables.table1, tables.split_cells, tables.COLUMNS, UCI, (2, 5)),
    "table2": Experiment(
        activity.table2, activity.cells, activity.TABLE2_COLUMNS, activity.DATASETS
    ),
    "table3": Experiment(tables.table3, tables.split_cells, tables.COLUMNS, UCI, (2, 5)),
    "table4": Experiment(clusters.table4, tables.split_cells, tables.COLUMNS, UCI, (2, 5)),
    "table5": Experiment(tables.table5, tables.split_cells, tables.COLUMNS, UCI, (2, 5)),
    "figure1": Experiment(tables.figure1, lambda splits: [{}], tables.FIGURE1_COLUMNS),
    "figure2": Experiment(
        tables.figure2, tables.figure2_cells, tables.FIGURE2_COLUMNS, ("wine_quality",)
    ),
    "figure3": Experiment(
        activity.figure3, activity.cells, activity.FIGURE3_COLUMNS, activity.DATASETS
    ),
    "leakage": Experiment(tables.leakage, tables.leakage_cells, tables.COLUMNS, UCI),
    "search": Experiment(search.search, search.cells, search.COLUMNS, search.SEARCHED),
    "definitions": Experiment(
        clusters.search, clusters.search_cells, clusters.DEFINITION_COLUMNS, clusters.READABLE
    ),
}


def run(
    names: Sequence[str],
    out: Path,
    *,
    splits: int = 5,
    quick: bool = False,
    jobs: int = 1,
    verbose: int = 0,
) -> list[Path]:
    """Compute what is not in the cache of `out` yet; write a CSV file for each name."""
    chosen = {name: EXPERIMENTS[name] for name in EXPERIMENTS if name in names}
    check_files(dict.fromkeys(name for e in chosen.values() for name in e.datasets))
    code = code_hash()
    memory = joblib.Memory(out / "cache" / code, verbose=0)
    effort = QUICK if quick else FULL
    cells = [(name, cell) for name, e in chosen.items() for cell in e.cells(splits)]
    cells.sort(key=_order)
    with joblib.Parallel(jobs, verbose=verbose, pre_dispatch="all", batch_size=1) as parallel:
        # First, so that two tables do not fit the same split at the same time.
        parallel(joblib.delayed(_fit)(memory, *fit) for fit in _shared_fits(chosen, splits))
        results = parallel(
            joblib.delayed(_compute)(memory, chosen[name].compute, {**cell, "effort": effort})
            for name, cell in cells
        )
    files = []
    for name, experiment in chosen.items():
        pairs = zip(cells, results, strict=True)
        rows = [row for (owner, _), part in pairs if owner == name for row in part]
        frame = pandas.DataFrame(rows, columns=list(experiment.columns))
        files.append(out / f"{name}.csv")
        frame.to_csv(files[-1], index=False, float_format="%.10g")
    options = {"splits": splits, **asdict(effort)}
    return [*files, _write_manifest(out, chosen, options, code)]


def code_hash() -> str:
    """Hash of the code that the numbers depend on, so that no cell of other code is reused."""
    package = sorted(Path(fairpca.__file__).parent.rglob("*.py"))
    ours = [path for path in sorted(_HERE.glob("*.*")) if path.name not in _DRAWING]
    kept = [path for path in ours if path.suffix == ".py" or path.name == "registry.toml"]
    return str(joblib.hash([path.read_bytes() for path in package + kept]))[:16]


def _order(cell: tuple[str, dict[str, Any]]) -> tuple[int, int]:
    """Cells that take longest first, then whole splits."""
    name, arguments = cell
    longest = {"search": 0, "leakage": 1}
    return longest.get(name, 2), arguments.get("split", 0)


def _shared_fits(
    chosen: dict[str, Experiment], splits: int
) -> dict[tuple[str, str, int, int], None]:
    """Arguments of `fit_split`, each once."""
    return dict.fromkeys(
        (*cell.values(), d)
        for experiment in chosen.values()
        for d in experiment.components
        for cell in experiment.cells(splits)
    )


def _fit(memory: joblib.Memory, *arguments: Any) -> None:
    with threadpool_limits(1):  # one thread a process, for BLAS and for the OpenMP of k-means
        memory.cache(fit_split)(*arguments)


def _compute(memory: joblib.Memory, function: Any, arguments: dict[str, Any]) -> tables.Rows:
    with threadpool_limits(1):
        return memory.cache(function, ignore=["cache"])(**arguments, cache=memory.cache)


def _write_manifest(
    out: Path, chosen: dict[str, Experiment], options: dict[str, Any], code: str
) -> Path:
    """Write everything needed to run again; nothing that differs between two equal runs."""
    path = out / "manifest.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    # Files of other code stay, and the page says which; those of other options do not.
    kept = before["experiments"] if before.get("options") == options else {}
    experiments = {**kept, **dict.fromkeys(chosen, code)}
    datasets = sorted({dataset for name in experiments for dataset in EXPERIMENTS[name].datasets})
    manifest = {
        "options": options,
        "seed": SEED,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "datasets": {name: registry()[name]["sha256"] for name in datasets},
        "experiments": dict(sorted(experiments.items())),
    }
    path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return path
