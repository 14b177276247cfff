"""The list of deliberate faults (`make mutants`) fits the source and the tests as they are."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_place = ROOT / "tests" / "mutants" / "__main__.py"
_spec = importlib.util.spec_from_file_location("mutants", _place)
mutants = importlib.util.module_from_spec(_spec)
sys.modules["mutants"] = mutants
_spec.loader.exec_module(mutants)
FAULTS = mutants.read_faults()


def test_there_are_enough_of_them_and_each_has_a_name():
    assert len(FAULTS) >= 60
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    rooms = {fault.file.split("/")[0] for fault in FAULTS}
    assert rooms >= {"solvers", "moments", "metrics", "rows", "tables"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_still_applies(fault):
    source = (ROOT / "src" / "fairpca" / fault.file).read_text()
    assert source.count(fault.old) == 1
    compile(source.replace(fault.old, fault.new), fault.file, "exec")
    for test in fault.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text()
