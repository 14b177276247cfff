"""fairpca datasets on the command line."""

import json

import pytest
from click.testing import CliRunner

from fairpca.cli._app import app


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path))
    monkeypatch.setenv("FAIRPCA_HOME", str(tmp_path))
    return lambda *args: CliRunner().invoke(app, list(args))


def test_list_says_where_to_put_what(invoke, tmp_path):
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "magic.csv.gz").write_bytes(b"")
    result = invoke("datasets")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert lines["magic"].endswith("present")
    assert "uci/wine_quality.csv.gz" in lines["wine_quality"]
    assert "OpenML" in lines["pima_diabetes"]
    assert str(tmp_path) in result.stderr


def test_json_and_description(invoke):
    listed = json.loads(invoke("datasets", "--json").stdout)
    assert len(listed) == 22
    assert not any(entry["present"] for entry in listed)
    described = invoke("datasets", "ecoli").stdout
    assert "coin flip" in described
    assert "SHA-256" in described
    assert invoke("datasets", "ecolo").exit_code == 2
