"""Figures of the documentation come from files of the benchmarks; tables of them are not typed."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"built", "gallery", "api"}  # by the build
# Written by its own command, or not converted yet.
EXEMPT = {"reproduction.md", "reproduction-search.md", "tight-relaxation.md"}
# What a measurement looks like in a table: a decimal fraction, a share, seconds, megabytes.
MEASURED = re.compile(r"\d\.\d|\d ?%|\d (s|ms|MB|MiB)\b")


def typed_tables(path):
    """Lines of tables that hold measurements, code left out."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [re.sub(r"`[^`]*`", "", line) for line in text.splitlines() if line.startswith("|")]
    return [line for line in lines if MEASURED.search(line)]


def test_no_table_of_figures_is_typed():
    pages = [path for path in DOCS.rglob("*.md") if not MADE & set(path.relative_to(DOCS).parts)]
    assert len(pages) > 30
    typed = {path.name: typed_tables(path) for path in pages if path.name not in EXEMPT}
    assert {name: lines for name, lines in typed.items() if lines} == {}


def test_every_piece_that_a_page_takes_is_made(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import pages

    made = {f"{name}.md" for name in pages.benchmark_tables()}
    made |= {"changelog.md", "contributing.md", "citing.md"}
    for path in DOCS.rglob("*.md"):
        taken = re.findall(r"\{include\} \S*built/(\S+)", path.read_text(encoding="utf-8"))
        assert set(taken) <= made, path
