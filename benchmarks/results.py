"""What a benchmark measured, as JSON beside its table, so that pages and later runs can read it."""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `reproduction` is
FOLDER = Path(__file__).parent / "results"
PACKAGES = ("fairpca", "numpy", "scipy", "scikit-learn")


def save(name, rows, **facts):
    """Write the rows of a table, as dictionaries, with the versions and the load of the run."""
    FOLDER.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "versions": {package: version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        **facts,
        "rows": rows,
    }
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to benchmarks/results/{path.name}")


def load(name):
    """Return the rows of an earlier run, for a benchmark whose parts are run one by one."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
