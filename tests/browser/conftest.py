"""A real browser without a window, and pages that remember what went wrong in them."""

import os
import shutil
from types import SimpleNamespace

import pytest

FLAGS = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)


def missing(reason):
    """Skip for want of something, but never where a continuous integration would not notice."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, which the continuous integration needs")
    pytest.skip(reason)


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        missing("there is no chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def open_page(browser):
    """Open an address or a piece of HTML; return the page and what it complained about."""
    contexts = []

    def open_one(address=None, *, html=None, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page, complaints = context.new_page(), []
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
        page.on(
            "console",
            lambda message: complaints.append(message.text) if message.type == "error" else None,
        )
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        if html is not None:
            page.set_content(html, wait_until="load")
        else:
            page.goto(address, wait_until="load")
        return SimpleNamespace(page=page, complaints=complaints)

    yield open_one
    for context in contexts:
        context.close()
