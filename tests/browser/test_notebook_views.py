"""Views of a notebook with hostile names, in a real browser: they are text and nothing else."""

import pytest
from notebook_views import HOSTILE, views

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>views</title>
<script>window.hits = 0; function hit() {{ window.hits += 1; }}</script></head>
<body>{body}</body></html>"""


@pytest.fixture(scope="module")
def shown():
    return {name: value._repr_html_() for name, value in views().items()}


@pytest.mark.parametrize(
    "name", ["certificate", "delta", "audit", "moments", "contrasts", "contrasts_", "FairPCA"]
)
def test_hostile_names_do_nothing(open_page, shown, name):
    opened = open_page(html=PAGE.format(body=shown[name]))
    page = opened.page
    page.wait_for_timeout(50)
    assert page.evaluate("window.hits") == 0
    assert page.locator("img").count() == 0
    assert not [text for text in opened.complaints if "favicon" not in text]
    if name != "FairPCA":
        assert page.locator("table").count() == 1
        assert page.locator("script").count() == 1  # the one of the page itself
        assert HOSTILE[0] in page.locator("table").inner_text() + page.content().replace(
            "&lt;", "<"
        ).replace("&gt;", ">")


def test_the_check_itself_can_fail(open_page):
    opened = open_page(html=PAGE.format(body=f"<p>{HOSTILE[0]}{HOSTILE[1]}</p>"))
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("window.hits") > 0
