"""The blocks of the guides run, one after the other; `make test-sql` runs those of the extras."""

import re
import sys
from pathlib import Path

import pytest

import fairpca

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def run_blocks(name, wanted, **names):
    """Run the Python blocks whose first line is no mark, or one that is wanted."""
    text = (GUIDES / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for block in blocks:
        mark = re.match(r"# (sql|spark)\n", block)
        if mark is None or mark[1] in wanted:
            exec(compile(block, name, "exec"), names)
    return names


@pytest.mark.parametrize(
    "name",
    [
        *("arrow.md", "batches.md", "embeddings.md", "model-target.md"),
        *("production.md", "reading-components.md"),
    ],
)
def test_the_guide_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(name, ())
    assert not list(tmp_path.iterdir())


@pytest.mark.sql
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", ["arrow.md", "databases.md", "production.md"])
def test_the_guide_runs_with_its_extras(name, tmp_path, monkeypatch):
    pytest.importorskip("adbc_driver_manager", reason="needs fairpca[sql]")
    pytest.importorskip("skl2onnx", reason="needs fairpca[onnx]")
    pytest.importorskip("skops", reason="needs fairpca[skops]")
    monkeypatch.chdir(tmp_path)
    run_blocks(name, ("sql",))


@pytest.mark.spark
@pytest.mark.filterwarnings("default")
def test_the_guide_of_spark_runs(tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="needs fairpca[spark]")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        names = run_blocks("spark.md", ("spark",), spark=session, fairpca=fairpca)
        assert names["reduced"].columns[-2:] == ["fairpca0", "fairpca1"]
        assert names["scored"].columns[-1] == "fair"
        assert (tmp_path / "model.npz").exists()
    finally:
        session.stop()
