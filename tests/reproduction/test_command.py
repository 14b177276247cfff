"""The command line: python -m reproduction."""

import json

import pytest

from reproduction.__main__ import main


def test_one_figure_with_page_and_manifest(tmp_path, capfd):
    arguments = ["figure1", "--quick", "--out", str(tmp_path), "--jobs", "1"]
    assert main(arguments) == 0
    names = {path.name for path in tmp_path.iterdir()}
    expected = {"figure1.csv", "figure1.png", "figure1.svg", "manifest.json", "reproduction.md"}
    assert expected <= names
    shown = capfd.readouterr()
    assert "1 out of   1" in shown.err
    assert str(tmp_path / "reproduction.md") in shown.out
    assert json.loads((tmp_path / "manifest.json").read_text())["options"]["splits"] == 1
    assert "img/reproduction/figure1.png" in (tmp_path / "reproduction.md").read_text()
    pictures = {path: path.read_bytes() for path in tmp_path.glob("figure1.*")}
    assert main([*arguments, "--quiet"]) == 0
    assert capfd.readouterr().err == ""
    assert pictures == {path: path.read_bytes() for path in pictures}  # drawn again, the same


@pytest.mark.parametrize(
    "arguments", [(), ("table9",), ("figure1", "--splits", "0"), ("figure1", "--jobs", "0")]
)
def test_bad_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_missing_data_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path / "none"))
    assert main(["figure2", "--quick", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "wine_quality.csv.gz" in line


def test_data_are_listed_and_described(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "magic.csv.gz").write_bytes(b"")
    assert main(["--data"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert len(lines) == 17
    assert lines["magic"].endswith("present")
    assert "uci/wine_quality.csv.gz" in lines["wine_quality"]
    assert main(["--data", "ecoli"]) == 0
    described = capsys.readouterr().out
    assert "coin flip" in described
    assert "SHA-256" in described
