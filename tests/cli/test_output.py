"""Output files: never overwritten by accident, never half-written."""

import pandas as pd
import pytest

SEX = ("--sensitive", "sex", "--drop", "race,income")


def never(*_, **__):
    pytest.fail("work was done although the output could not be written")


def test_an_existing_file_is_refused_before_any_work(refused, write, people, tmp_path, monkeypatch):
    monkeypatch.setattr("fairpca.tables.table.Table.moments", never)
    out = tmp_path / "reduced.csv"
    out.write_text("precious")
    line = refused("fit", write(people), *SEX, "--out", out)
    assert "exists already" in line
    assert "Or use --force." in line
    assert out.read_text() == "precious"


def test_force_replaces_and_keeps_the_permissions(run, write, people, tmp_path):
    out = tmp_path / "reduced.csv"
    out.write_text("old")
    out.chmod(0o600)
    assert run("fit", write(people), *SEX, "--out", out, "--force").exit_code == 0
    assert len(pd.read_csv(out)) == 120
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_new_file_has_the_usual_permissions(run, write, people, tmp_path):
    out, usual = tmp_path / "reduced.csv", tmp_path / "usual"
    usual.touch()
    assert run("fit", write(people), *SEX, "--out", out).exit_code == 0
    assert out.stat().st_mode == usual.stat().st_mode


def test_force_follows_a_link(run, write, people, tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    link.symlink_to(real)
    assert run("fit", write(people), *SEX, "--out", link, "--force").exit_code == 0
    assert link.is_symlink()
    assert len(pd.read_csv(real)) == 120


def test_the_input_is_never_replaced(refused, write, people, tmp_path):
    path = write(people)
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    for out in (path, link):
        line = refused("fit", path, *SEX, "--out", out, "--force")
        assert "is or holds the input" in line
    assert len(pd.read_csv(path)) == 120


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("none/reduced.csv", "directory 'none' does not exist"),
        ("reduced.txt", "use one of .csv, .csv.gz, .parquet"),
        ("", "is a directory"),
    ],
)
def test_places_that_cannot_be_written(
    refused, write, people, tmp_path, monkeypatch, name, complaint
):
    monkeypatch.setattr("fairpca.tables.table.Table.moments", never)
    out = tmp_path / name if name else (tmp_path / "folder.csv")
    if not name:
        out.mkdir()
    assert complaint in refused("fit", write(people), *SEX, "--out", out)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("name", ["reduced.csv", "reduced.parquet"])
def test_a_failure_while_writing_leaves_nothing(
    run, write, people, tmp_path, monkeypatch, error, name
):
    def fail(*_):
        raise error

    source = write(people)
    monkeypatch.setattr("fairpca.tables._model.Projection.scores", fail)
    out = tmp_path / name
    result = run("fit", source, *SEX, "--out", out)
    assert result.exit_code == (130 if error is KeyboardInterrupt else 1)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_a_file_that_appears_during_the_fit_is_kept(refused, write, people, tmp_path, monkeypatch):
    from fairpca.cli import _fit

    out = tmp_path / "reduced.csv"
    compare = _fit._compare

    def slow(*arguments, **options):
        out.write_text("precious")
        return compare(*arguments, **options)

    monkeypatch.setattr(_fit, "_compare", slow)
    assert "exists already" in refused("fit", write(people), *SEX, "--out", out)
    assert out.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 2


def test_kept_columns_cannot_take_the_name_of_a_component(refused, write, people, tmp_path):
    frame = people.assign(fairpca0=1.0)
    out = tmp_path / "o.csv"
    line = refused("fit", write(frame), *SEX, "--keep", "fairpca0", "--out", out)
    assert "'fairpca0' has the name of a new column" in line
    assert not out.exists()
