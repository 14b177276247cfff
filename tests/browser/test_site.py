"""The site that `make docs` built: links lead somewhere, and pages open without complaints."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from fairpca import __all__ as top_names

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
WIDTHS = (1280, 390)
# Checks of the site's size and of what a newcomer finds.
MAX_MEGABYTES = 30
START = {
    "install": "pip install",
    "csv": "guides/command-line.html",
    "choose": "guides/choosing-parameters.html",
    "check": "gallery/plot_audit.html",
    "limits": "what-fair-means.html",
}


class Page(HTMLParser):
    """Addresses and anchors of a page, and its pictures and tables."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.counts = [], set(), {}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


@pytest.fixture(scope="module")
def pages():
    if not (SITE / "index.html").is_file():
        if os.environ.get("CI"):
            pytest.fail("there is no build/site: run make docs first")
        pytest.skip("there is no build/site: run make docs")
    found = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
    return {path.resolve(): Page(path) for path in found}  # templates of the theme are no pages


def test_every_internal_link_leads_somewhere(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.name}: {link}")
            elif parts.fragment and target in pages:
                anchors = pages[target].anchors
                if unquote(parts.fragment) not in anchors | {"", "top"}:
                    broken.append(f"{path.name}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(pages):
    loads = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+"[^>]*>')
    for path in pages:
        found = loads.findall(path.read_text(encoding="utf-8"))
        assert not [tag for tag in found if 'rel="canonical"' not in tag], path.name


def test_the_site_is_small(pages):
    size = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    assert size < MAX_MEGABYTES * 2**20


def test_every_public_name_has_a_page(pages):
    names = {path.name for path in pages}
    constants = {"__version__", "SKOPS_TRUSTED"}  # which a guide explains
    for name in set(top_names) - constants:
        assert f"fairpca.{name}.html" in names


def test_a_newcomer_finds_everything_from_the_start(pages):
    start = pages[(SITE / "index.html").resolve()]
    text = (SITE / "index.html").read_text(encoding="utf-8")
    words = re.sub(r"<[^>]+>", "", text)  # colours of code stand between its words
    for place in START.values():
        assert place in text or place in words
    assert start.counts["img"] >= 1


def test_every_example_ends_in_a_picture(pages):
    examples = [path for path in pages if path.name.startswith("plot_")]
    assert len(examples) >= 10
    for path in examples:
        assert "sphx-glr-single-img" in path.read_text(encoding="utf-8"), path.name


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_opens_without_complaints(pages, open_page, width):
    complaints = {}
    first = open_page(next(iter(pages)).as_uri(), width=width)
    for path in pages:
        first.complaints.clear()
        first.page.goto(path.as_uri(), wait_until="load")
        # A page must not be wider than the screen.
        wide = first.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if wide > 1:
            first.complaints.append(f"{wide} pixels too wide")
        # Browsers do not let files be fetched; the search index is the only one that is.
        found = [text for text in first.complaints if "searchindex" not in text]
        if found:
            complaints[path.relative_to(SITE.resolve()).as_posix()] = found
    assert not complaints
