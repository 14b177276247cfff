"""The blocks of the guide run, one after the other."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "large-data.md"


# dask calls pandas in ways that pandas has deprecated.
@pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")
def test_the_guide_runs(tmp_path, monkeypatch):
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people").mkdir()
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    blocks = [block for block in blocks if not block.startswith("# spark")]
    assert len(blocks) == 6
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.npz",
        "people",
        "reduced",
        "sums",
    ]
    assert names["moments"].feature_names[-3:] == ("job=clerk", "job=cook", "job=judge")
    assert list(names["scores"].compute().columns) == ["fairpca0", "fairpca1"]
