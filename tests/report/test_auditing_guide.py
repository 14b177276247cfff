"""The blocks of the guide run, one after the other."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "auditing.md"


def test_the_guide_runs(tmp_path, monkeypatch, small_effort):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "card.md",
        "report.html",
        "report.json",
    ]
    assert names["chosen"].best_params_["mean_tol"] == 0.0
