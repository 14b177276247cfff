"""What `import fairpca` gives, and what it does not load."""

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fairpca


def test_public_names_are_there():
    for name in fairpca.__all__:
        assert name in dir(fairpca)
        assert getattr(fairpca, name) is not None
    assert fairpca.FairPCA is fairpca.estimators.FairPCA
    with pytest.raises(AttributeError, match="no attribute 'FairPcA'"):
        _ = fairpca.FairPcA


def test_nothing_heavy_is_loaded_before_it_is_used():
    program = (
        "import sys, fairpca.cli; print(sorted({'sklearn', 'scipy', 'pandas'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# The other packages (linalg, kernels, adversary, cli) serve these, and their names may change.
PACKAGES = (*fairpca._PACKAGES, "exceptions", "report", "rows")


def public_objects():
    for package in PACKAGES:
        module = import_module(f"fairpca.{package}")
        for name in getattr(module, "__all__", None) or vars(module):
            found = getattr(module, name)
            if inspect.isfunction(found) or inspect.isclass(found):
                yield pytest.param(found, id=f"{package}.{name}")


@pytest.mark.parametrize("found", list(public_objects()))
def test_public_objects_have_an_example_that_runs(found):
    plain = (
        isinstance(found, type) and issubclass(found, Exception) and "__init__" not in vars(found)
    )
    if not plain and found.__module__.startswith("fairpca"):  # such errors are their first line
        assert ">>>" in inspect.getdoc(found).partition("Examples\n--------")[2]


@pytest.mark.parametrize("found", list(public_objects()))
def test_public_objects_lead_to_others_that_exist(found):
    plain = isinstance(found, type) and issubclass(found, Exception)  # named where they are raised
    if (
        plain
        or not found.__module__.startswith("fairpca")
        or found.__module__ == "fairpca.exceptions"
    ):
        return
    section = inspect.getdoc(found).partition("See Also\n--------\n")[2].partition("\n\n")[0]
    names = [name for line in section.splitlines() for name in line.partition(" : ")[0].split(", ")]
    assert names, "a public object needs a See Also"
    home = ".".join(found.__module__.split(".")[:2])
    for name in names:
        here = name if name.startswith("fairpca.") else f"{home}.{name}"
        assert pydoc.locate(here) is not None, f"{here} does not exist"


def test_the_functions_that_contributing_names_exist():
    """A newcomer is promised the way of a row in at most eight functions."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("Eight functions to read")[2].partition("###")[0]
    named = re.findall(r"^\d\. `([^`]+)`", section, flags=re.MULTILINE)
    assert 6 <= len(named) <= 8
    for path in named:
        module, *names = path.replace("/", ".").split(".")
        found = import_module(f"fairpca.{module}.{names[0]}")
        for name in names[1:]:
            found = getattr(found, name)
        assert callable(found)
    drawing = text.partition("and back\n\n```\n")[2].partition("```")[0]
    assert len(drawing.splitlines()) <= 10


def test_the_version_is_the_same_wherever_it_is_written():
    root = Path(__file__).parents[2]
    assert f"\nversion: {fairpca.__version__}\n" in (root / "CITATION.cff").read_text()
    assert f"version = {{{fairpca.__version__}}}" in (root / "README.md").read_text()


def documented_defaults(thing):
    """Names, defaults and what the docstring says that they are."""
    parameters = inspect.signature(thing).parameters
    described = re.findall(
        r"^(\w+(?:, \w+)*) : [^\n]*?default (\S+)$", inspect.getdoc(thing) or "", re.M
    )
    for names, words in described:
        for name in set(names.split(", ")) & parameters.keys():
            yield name, parameters[name].default, words


def test_defaults_are_those_of_the_docstrings():
    count = 0
    for [thing] in (found.values for found in public_objects()):
        methods = vars(thing).items() if inspect.isclass(thing) else ()
        known = [
            getattr(thing, k) for k, f in methods if k[0] != "_" and callable(getattr(thing, k))
        ]
        for one in [thing, *known] if callable(thing) else ():
            for parameter, default, words in documented_defaults(one):
                assert default == ast.literal_eval(words), (one, parameter)
                count += 1
    assert count > 60
