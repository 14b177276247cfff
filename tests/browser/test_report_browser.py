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
    assert page.locator("script").count() == 2  # the data of the slider, and our script
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


def figures(page):
    return page.locator("#explorer [data-figure]").all_inner_texts()


def test_the_slider_moves_by_drag_and_by_keys(visit):
    page = visit()
    slider = page.locator("#path-slider")
    assert page.locator("#explorer").is_visible()
    before, picture = figures(page), page.locator("[data-panel=fair] svg").inner_html()
    slider.focus()
    page.keyboard.press("End")
    assert page.locator("#explorer output").inner_text() == "penalty 10"
    assert slider.get_attribute("aria-valuetext") == "penalty 10"
    assert figures(page) != before
    assert page.locator("[data-panel=fair] svg").inner_html() != picture
    page.keyboard.press("ArrowLeft")
    assert page.locator("#explorer output").inner_text() == "penalty 3"
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    assert page.locator("#explorer output").inner_text() == "penalty 0"
    assert [entry for entry in page.heard if entry[0] != "request"] == []


def test_hostile_names_in_the_slider_are_text(visit):
    page = visit()
    page.select_option("#path-attribute", "1")
    legend = page.locator("#explorer .legend").inner_text()
    assert "</style><style>*{display:none}" in legend
    assert "\\x1b[31mred" in legend
    assert page.locator("#explorer img").count() == 0
    assert [entry for entry in page.heard if entry[0] != "request"] == []


def test_without_scripts_the_table_is_left(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert not page.locator("#explorer").is_visible()
    assert "penalty 10" in page.locator("section:has(#tradeoff) table").last.inner_text()
    context.close()


def test_no_column_is_behind_a_scroll_bar(visit):
    page = visit(1000)
    wide = page.evaluate(
        "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        ".map(e => e.getAttribute('aria-label'))"
    )
    assert wide == []


def test_it_prints(visit):
    page = visit()
    page.emulate_media(media="print")
    content = page.pdf(path=KEPT / "report.pdf")
    assert content.startswith(b"%PDF")
    assert not page.locator("nav").is_visible()
