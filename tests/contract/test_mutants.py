"""The runner of deliberate faults (`make mutants`) tells those that no longer fit the source."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_place = ROOT / "tests" / "mutants" / "__main__.py"
_spec = importlib.util.spec_from_file_location("mutants", _place)
mutants = importlib.util.module_from_spec(_spec)
sys.modules["mutants"] = mutants
_spec.loader.exec_module(mutants)


def test_there_are_enough_of_them_and_each_has_a_name():
    faults = mutants.read_faults()
    assert len(faults) >= 60
    assert len({fault.name for fault in faults}) == len(faults)
    packages = {fault.file.split("/")[0] for fault in faults}
    assert packages >= {"solvers", "moments", "metrics", "rows", "tables"}


def test_a_stale_fault_is_told_from_one_that_fits(tmp_path):
    file = tmp_path / "fairpca" / "rows" / "x.py"
    file.parent.mkdir(parents=True)
    file.write_text("a = 1\nb = 2\nb = 2\n")
    here = "tests/contract/test_mutants.py::test_a_stale_fault_is_told_from_one_that_fits"
    fits = mutants.Fault("one", "rows/x.py", "a = 1", "a = 2", (here,))
    assert fits.stale(tmp_path) == ""
    for change, reason in [
        ({"old": "c = 1"}, "occur 0 times"),
        ({"old": "b = 2"}, "occur 2 times"),
        ({"file": "rows/y.py"}, "no such file"),
        ({"new": "a ="}, "does not compile"),
        ({"tests": ("tests/contract/test_mutants.py::test_gone",)}, "no such test"),
    ]:
        assert reason in dataclasses.replace(fits, **change).stale(tmp_path)
    fits.apply(tmp_path)
    assert file.read_text().startswith("a = 2\n")
