"""The page of an audit in a real browser; run by `make test-browser`."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from hostile import hostile_page

AXE = Path(os.environ.get("AXE", "build/tools/node_modules/axe-core/axe.min.js"))
KEPT = Path("build/browser")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return hostile_page().to_html(tmp_path_factory.mktemp("page") / "report.html").as_uri()


@pytest.fixture
def visit(browser, address):
    """Open the page; every message, request and dialogue is kept."""
    contexts = []

    def open_page(width=1280, scheme="light", bypass=False):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=bypass
        )
        contexts.append(context)
        page = context.new_page()
        page.heard = []
        for event in ("console", "pageerror", "dialog", "requestfailed", "popup"):
            page.on(event, lambda it, event=event: page.heard.append((event, str(it))))
        page.on("request", lambda it: page.heard.append(("request", it.url[:100])))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_quietly_and_fits(visit, width, scheme):
    page = visit(width, scheme)
    loud = [entry for entry in page.heard if entry[0] != "request"]
    assert loud == []
    asked = [url for event, url in page.heard if event == "request" and not url.startswith("data:")]
    assert len(asked) == 1  # the page itself
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("section").count() >= 10
    for picture in page.locator("img").all():
        assert picture.evaluate("image => image.naturalWidth") > 100
    KEPT.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=KEPT / f"report-{width}-{scheme}.png", full_page=True)


def test_hostile_names_do_nothing(visit):
    page = visit()
    assert page.locator("script").count() == 0
    assert page.locator("img:not([src^='data:image/png'])").count() == 0
    assert "{{7*7}}" in page.inner_text("body")
    assert "49{%" not in page.inner_text("body")
    assert page.locator("h1").is_visible()  # no style of theirs hides it
    assert page.inner_text("h1") == "<script>alert(1)</script>"


def test_scripts_would_be_blocked_if_there_were_any(visit):
    page = visit()
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=document.title=1>')"
    )
    page.wait_for_timeout(200)
    assert page.title() == "<script>alert(1)</script>"


@pytest.mark.skipif(not AXE.is_file(), reason="make test-browser installs axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(visit, scheme):
    page = visit(scheme=scheme, bypass=True)  # the policy would keep the checker out as well
    page.add_script_tag(content=AXE.read_text())
    found = page.evaluate("axe.run()")["violations"]
    serious = [entry for entry in found if entry["impact"] in ("serious", "critical")]
    assert serious == [], json.dumps(serious, indent=1)[:3000]


def test_it_prints(visit):
    page = visit()
    page.emulate_media(media="print")
    content = page.pdf(path=KEPT / "report.pdf")
    assert content.startswith(b"%PDF")
    assert not page.locator("nav").is_visible()
