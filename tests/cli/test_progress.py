"""Progress: silent when short, on standard error when long."""

import time

import pytest

from fairpca.cli import _console
from fairpca.cli._console import Stages


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(_console, "DELAY", 0.02)


def test_short_work_is_silent(capsys):
    with Stages(enabled=True) as stages:
        stages.begin("fitting")
    assert capsys.readouterr() == ("", "")


def test_long_work_names_each_stage_once_and_then_rarely(capsys, impatient):
    with Stages(enabled=True) as stages:
        stages.begin("reading")
        time.sleep(0.1)
        stages.begin("fitting")
        time.sleep(0.3)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0] == "fairpca: reading (0 s)"
    assert "fairpca: fitting (0 s)" in lines
    assert 2 <= len(lines) <= 8


def test_disabled_work_is_silent_however_long(capsys, impatient):
    with Stages(enabled=False) as stages:
        stages.begin("fitting")
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_spinner_that_disappears(monkeypatch, capsys, impatient):
    monkeypatch.setattr(_console.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with Stages(enabled=True) as stages:
        stages.begin("fitting")
        time.sleep(0.3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "fitting" in err
    assert not err.endswith("fitting")


def test_an_error_ends_the_progress_and_passes(impatient):
    stages = Stages(enabled=True)

    def fail():
        with stages:
            time.sleep(0.1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not stages._thread.is_alive()


def test_a_known_end_gives_an_estimate():
    stages = Stages(enabled=False)
    with stages:
        stages.begin("measuring")
        stages._begun -= 10.0  # as if it had taken so long
        stages(1, 4)
        assert stages._described() == "measuring, 25%, about 30 s left"
        stages(4, 4)
        assert stages._described() == "measuring, 100%"


def test_time_before_the_first_step_says_nothing_about_the_rest():
    stages = Stages(enabled=False)
    with stages:
        stages.begin("fitting and measuring")
        stages._begun -= 1000.0  # the fit
        stages(0, 4)
        stages._begun -= 10.0
        stages(1, 4)
        assert stages._described() == "fitting and measuring, 25%, about 30 s left"
