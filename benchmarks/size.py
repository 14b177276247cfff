"""How large the package is, and how far a reader has to follow a fit (benchmarks/size.py).

Lines and files of src, functions and files visited by a fit, files loaded by ``fairpca report``,
and underscored names that one file imports from another.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import fairpca
from fairpca import FairPCA

PACKAGE = Path(fairpca.__file__).parent
LIMITS = {
    "lines": 23_000,
    "files": 125,
    "private imports": 0,
    "functions, FairPCA(cov_weight=0).fit": 100,
    "functions, FairPCA().fit": 180,
    "files loaded by fairpca report": 70,
}


def sizes():
    """Lines, files and private imports of the package."""
    files = sorted(PACKAGE.rglob("*.py"))
    private = [name for file in files for name in private_imports(file)]
    lines = sum(len(file.read_text().splitlines()) for file in files)
    return {"lines": lines, "files": len(files), "private imports": len(private)}


def private_imports(file):
    """Underscored names that a file takes from another file of the package."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairpca."):
            for alias in node.names:
                module = PACKAGE / Path(*node.module.split(".")[1:]) / f"{alias.name}.py"
                if alias.name.startswith("_") and not module.exists():
                    yield f"{file.relative_to(PACKAGE)}: {node.module}.{alias.name}"


def visited(call):
    """Functions of the package that a call enters, by file; and the greatest depth."""
    found, depth, deepest = set(), 0, 0

    def watch(frame, event, _):
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)):
            return
        if event == "call":
            depth += 1
            deepest = max(deepest, depth)
            if not code.co_name.startswith("<"):  # no comprehensions and lambdas
                found.add((code.co_filename, code.co_qualname))
        elif event == "return":
            depth -= 1

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found, deepest


def fits():
    """Functions visited by two fits of one table, after everything has been imported."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 500)
    X = rng.normal(size=(500, 10)) + np.outer(z, np.arange(10) / 5)
    FairPCA().fit(X, sensitive_features=z)
    counts = {}
    for name, settings in (("cov_weight=0", {"cov_weight": 0}), ("", {})):
        model = FairPCA(**settings)
        found, deepest = visited(lambda model=model: model.fit(X, sensitive_features=z))
        counts[f"functions, FairPCA({name}).fit"] = len(found)
        counts[f"files, FairPCA({name}).fit"] = len({file for file, _ in found})
        counts[f"depth, FairPCA({name}).fit"] = deepest
    return counts


def loaded_by_report():
    """Files of the package that a whole run of ``fairpca report`` imports."""
    code = (
        "import sys; from fairpca.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sum(name.split('.')[0] == 'fairpca' for name in sys.modules), file=sys.stderr)"
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, "report", "--out", str(Path(folder, "page.html"))]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"files loaded by fairpca report": int(run.stderr.split()[-1])}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, value in {**sizes(), **fits(), **loaded_by_report()}.items():
        limit = f"   (at most {LIMITS[name]:,})" if name in LIMITS else ""
        print(f"{name:40} {value:7,}{limit}")
