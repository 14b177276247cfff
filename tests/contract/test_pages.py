"""Figures of the documentation come from files of the benchmarks; tables of them are not typed."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"gallery", "api", "changelog.md", "contributing.md"}  # by the build
# Written by its own command, or not converted yet.
EXEMPT = {"reproduction.md", "reproduction-search.md", "tight-relaxation.md"}
# What a measurement looks like in a table: a decimal fraction, a share, seconds, megabytes.
MEASURED = re.compile(r"\d\.\d|\d ?%|\d (s|ms|MB|MiB)\b")


def typed_tables(path):
    """Lines of tables that hold measurements, code left out."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|<!-- figures: .*?<!-- end of figures -->", "", text, flags=re.DOTALL)
    lines = [re.sub(r"`[^`]*`", "", line) for line in text.splitlines() if line.startswith("|")]
    return [line for line in lines if MEASURED.search(line)]


def test_no_table_of_figures_is_typed():
    pages = [path for path in DOCS.rglob("*.md") if not MADE & set(path.relative_to(DOCS).parts)]
    assert len(pages) > 30
    typed = {path.name: typed_tables(path) for path in pages if path.name not in EXEMPT}
    assert {name: lines for name, lines in typed.items() if lines} == {}


def test_figures_in_the_pages_are_those_of_the_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import pages

    filled = pages.filled_pages(DOCS)
    assert len(filled) >= 10
    stale = [path.name for path, text in filled.items() if path.read_text("utf-8") != text]
    assert stale == [], "run python docs/pages.py"


def test_pages_read_well_in_the_repository():
    for path in DOCS.rglob("*.md"):
        if not MADE & set(path.relative_to(DOCS).parts):
            assert "{include}" not in path.read_text(encoding="utf-8"), path


def test_links_of_pages_lead_somewhere_in_the_repository():
    dead = []
    for path in [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]:
        if MADE & {*path.relative_to(DOCS.parent).parts[1:]}:
            continue
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not re.match(r"\w+:", link) and not (path.parent / link).exists():
                dead.append((path.name, link))
    assert dead == []
