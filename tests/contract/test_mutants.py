"""The generator of faults (`make mutants`): one expression changes, and the lines that use it."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest


def load(name):
    """Import a file of tests/mutants, which is a program and no package."""
    place = Path(__file__).parents[1] / "mutants" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, place)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


faults, suite = load("faults"), load("suite")

SOURCE = '''"""Words with 1 < 2 in them."""
_LIMIT = 0.5
_ROWS_AT_ONCE = 64
_MOST = 40

def larger(x, y=2):
    """Say whether 3 > 2."""
    if x - y > _LIMIT:
        raise ValueError(f"{x + y}")
    return max(x, 1) ** 2
'''


@pytest.fixture
def found(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "one.py").write_text(SOURCE)
    return {fault.change: fault for fault in faults.find_faults(tmp_path, ("rows",))}


def test_operators_constants_and_calls_are_changed_and_words_are_not(found):
    assert set(found) == {
        "0.5 → 5.0", "0.5 → 0.05", "40 → 4", "2 → 3", "x - y > _LIMIT → x - y >= _LIMIT",
        "x - y → x + y", "x - y → x", "max(x, 1) ** 2 → max(x, 1) * 2", "max(x, 1) → min(x, 1)",
        "1 → 2",
    }  # fmt: skip


def test_a_fault_knows_the_lines_that_use_it(found):
    assert found["0.5 → 5.0"].used == (("rows/one.py", 8),)
    assert ("rows/one.py", 10) in found["max(x, 1) → min(x, 1)"].used


def test_a_fault_is_applied_in_its_place_only(found, tmp_path):
    found["x - y → x + y"].apply(tmp_path)
    changed = (tmp_path / "rows" / "one.py").read_text()
    ast.parse(changed)
    assert changed == SOURCE.replace("x - y", "(x + y)")


def test_the_interval_of_a_share_is_wilsons():
    low, high = faults.wilson(90, 100)
    assert (round(low, 3), round(high, 3)) == (0.826, 0.945)


def test_lines_of_a_changed_file_are_those_that_stood_there(tmp_path):
    now, then = tmp_path / "now.py", tmp_path / "then.py"
    then.write_text("a\nb\nc\nd\n")
    now.write_text("new\na\nB\nc\nd\n")
    assert [suite.lines_then(now, then, line) for line in range(2, 6)] == [[1], [2], [3], [4]]
    assert suite.lines_then(now, then, 1) == [0, 1]  # next to what was there before
