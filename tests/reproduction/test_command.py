"""fairpca reproduce on the command line."""

import json

import pytest
from click.testing import CliRunner

from fairpca.cli._app import app


@pytest.fixture
def invoke():
    return lambda *args: CliRunner().invoke(app, list(map(str, args)))


def test_one_figure_with_page_and_manifest(invoke, tmp_path):
    result = invoke("reproduce", "figure1", "--quick", "--out", tmp_path, "--jobs", 1)
    assert result.exit_code == 0, result.output
    names = {path.name for path in tmp_path.iterdir()}
    expected = {"figure1.csv", "figure1.png", "figure1.svg", "manifest.json", "reproduction.md"}
    assert expected <= names
    assert "figure1-all" in result.stderr
    assert json.loads((tmp_path / "manifest.json").read_text())["options"]["splits"] == 1
    assert "img/reproduction/figure1.png" in (tmp_path / "reproduction.md").read_text()
    again = invoke("reproduce", "figure1", "--quick", "--out", tmp_path, "--jobs", 1)
    assert again.stderr == ""  # nothing was left to compute


@pytest.mark.parametrize(
    "args", [(), ("table9",), ("figure1", "--splits", "0"), ("figure1", "--jobs", "0")]
)
def test_bad_arguments(invoke, args):
    assert invoke("reproduce", *args).exit_code == 2


def test_missing_data_is_one_line(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("FAIRPCA_HOME", str(tmp_path / "none"))
    result = invoke("reproduce", "figure2", "--quick", "--out", tmp_path / "out", "--jobs", 1)
    assert result.exit_code == 1
    assert "wine_quality.csv.gz" in result.stderr
    assert len(result.stderr.splitlines()) == 1
