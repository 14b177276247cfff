"""What the README shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest
from support import NEEDS_SKLEARN_1_9

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_ten_lines_run_and_say_what_the_demo_says(readme, capsys, run):
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    figures, certificate = capsys.readouterr().out.splitlines()
    kept, mean_gap, cov_gap = map(float, figures.split())
    assert mean_gap < 1e-12
    assert certificate.startswith("Certificate(within 0.3 % of optimal (proven)")
    demo = run("fit").stdout
    assert f"{100 * kept:.1f} %" in demo
    assert f"{cov_gap:.3f}" in demo


@NEEDS_SKLEARN_1_9
def test_the_demo_output_is_current(readme, run):
    (shown,) = re.findall(r"\$ fairpca fit\n(.*?)```", readme, re.DOTALL)
    demo = run("fit", default_map=None).stdout
    for name in ("variance kept", "mean gap", "covariance gap"):
        (expected,) = (line for line in demo.splitlines() if line.strip().startswith(name))
        (line,) = (line for line in shown.splitlines() if line.strip().startswith(name))
        assert line.split() == expected.split()


def test_the_commands_work(readme, run, write, people, monkeypatch, tmp_path):
    (block,) = re.findall(r"## The command line\n\n```\n(.*?)```", readme, re.DOTALL)
    write(people.drop(columns="race"))
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "fairpca"
        if arguments[0] == "audit":
            arguments += ["--effort", "quick", "--family", "linear", "--adversaries", "none"]
        result = run(*arguments)
        assert result.exit_code == 0, result.stderr


def test_linked_files_exist(readme):
    links = [link for link in re.findall(r"\]\(([^)]+)\)", readme) if "://" not in link]
    links += re.findall(r"python (examples/\w+\.py)", readme)
    assert len(links) >= 5
    for link in links:
        assert (ROOT / link).exists(), link
