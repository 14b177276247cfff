"""The page of an audit: what it says, that names are only shown, and its files."""

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile import HOSTILE, hostile_page

from fairpca import DeltaFairPCA, FairPCA, SparseFairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import audit
from fairpca.report import audit_report
from fairpca.report._page import _environment
from fairpca.rows import Rows

pytestmark = pytest.mark.usefixtures("small_effort")


@pytest.fixture(scope="module")
def page(small_effort):
    return hostile_page()


class Elements(HTMLParser):
    """Collects tags and their attributes."""

    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def parsed(html):
    found = Elements()
    found.feed(html)
    return found


def test_names_are_shown_and_never_obeyed(page):
    found = parsed(page.html())
    names = {tag for tag, _ in found.tags}
    assert not names & {"iframe", "object", "link", "form", "base"}
    scripts = [attributes for tag, attributes in found.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "path-data"}, {}]  # data, and ours
    assert [tag for tag, _ in found.tags].count("style") == 1
    for tag, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert "style" not in attributes
        if tag == "img":
            assert attributes["src"].startswith("data:image/png;base64,")
            assert attributes["alt"]
        for name in ("href", "src"):
            assert not re.match("https?:|//|javascript:", attributes.get(name) or "")
    text = " ".join(found.text)
    assert HOSTILE[0] in text
    assert HOSTILE[2] in text
    assert "49" not in found.text[0]
    assert "\x1b" not in page.html()
    assert "\\x1b[31mred" in page.html()


def sha256(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_our_style_and_our_script_and_nothing_else(page):
    html = page.html()
    (policy,) = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    (style,) = re.findall("<style>(.*?)</style>", html, flags=re.DOTALL)
    (script,) = re.findall("<script>(.*?)</script>", html, flags=re.DOTALL)
    assert policy.replace("&#39;", "'").split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{sha256(style)}'",
        f"script-src 'sha256-{sha256(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def page_levels():
    from fairpca.report._page import _prose

    return _prose()["verdict"]


def test_data_of_the_slider_cannot_leave_their_block(page):
    (block,) = re.findall('id="path-data">(.*?)</script>', page.html(), flags=re.DOTALL)
    assert "<" not in block
    path = json.loads(block)
    assert path == json.loads(json.dumps(page.path))
    assert [about["name"] for about in path["attributes"]] == list(HOSTILE[:2])
    assert len(path["points"]) == len(page.summary["fit"]["tradeoff"])
    assert sum(point["chosen"] for point in path["points"]) == 1


def test_the_slider_shows_what_the_models_are(page):
    fit, path = page.summary["fit"], page.path
    chosen = next(point for point in path["points"] if point["chosen"])
    shown = [value for _, value in chosen["loadings"][0]]  # with the signs of the table
    assert [entry["fair"] for entry in fit["loadings"][0]] == pytest.approx(shown, rel=1e-3)
    means = [np.array(shape)[:2] for shape in chosen["ellipses"][0].values()]
    assert np.linalg.norm(means[0] - means[1]) <= fit["fair"]["mean_gap"] + 1e-3


def test_everything_that_was_promised_is_there(page):
    html = page.html()
    for place in ("data", "before", "delta", "contrasts", "representation", "loadings", "tradeoff",
                  "decisions", "certificate", "limits", "record"):  # fmt: skip
        assert f'id="{place}"' in html
        assert f'href="#{place}"' in html
    pictures = {"delta", "loadings", "tradeoff"}
    assert set(page.pictures) == pictures | {f"before_after {name}" for name in HOSTILE[:2]}
    summary = page.summary
    assert summary["fit"]["held_out"]["folds"] == 3
    assert summary["fit"]["held_out"]["mean_gap"] < summary["fit"]["held_out"]["plain_mean_gap"]
    assert "plain, held-out" in html
    assert summary["fit"]["tradeoff"][0]["penalty"] == 0.0
    assert any(point["chosen"] for point in summary["fit"]["tradeoff"])
    assert len(summary["record"]["rows_sha256"]) == 64
    assert "compliance" in html  # only to say that it is none
    assert "no finding of compliance" in html
    assert summary["verdict"]["level"] in page_levels()
    assert [one["name"] for one in summary["audit"]["representations"]] == ["audited", "plain PCA"]
    assert len(html) < 1_500_000


def test_a_lay_reader_finds_six_answers(page):
    html, verdict = page.html(), page.summary["verdict"]
    headline, fit = verdict["headline"], page.summary["fit"]
    for question in ("was protected", "well can it still be predicted", "ompared with what",
                     "sure is that", "did it cost", "does it not show"):  # fmt: skip
        assert f"{question}?</dt>" in html
    assert f"it assigns {50 + 50 * headline['estimate']:.0f} to the right group" in html
    low, high = (f"{100 * headline[end]:.1f}".replace("-", "−") for end in ("low", "high"))
    assert f"lies between {low} and {high} points" in html
    assert f"keep {100 * fit['fair']['variance']:.1f} % of the variance" in html
    assert f"plain components keep {100 * fit['plain']['variance']:.1f} %" in html


def test_the_files_hold_the_same(page, tmp_path):
    path = page.to_html(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == page.html()
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["data"]["n_rows"] == 240
    assert document["audit"]["headline"] == page.summary["audit"]["headline"]
    card = page.to_markdown(tmp_path / "card.md").read_text(encoding="utf-8")
    assert card.startswith("# Model card: \\<script\\>")
    assert not re.search(r"(?<!\\)[<\[]", card)
    for line in page.summary["audit"]["representations"][0]["by_adversary"]:
        assert f"| {100 * line['estimate']:.1f} |".replace("-", "−") in card
    tables = [line for line in card.splitlines() if line.startswith("|")]
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in tables]
    assert set(widths) <= {5, 6, 7, 10}


def test_an_audit_alone_makes_a_page(tmp_path):
    rng = np.random.default_rng(0)
    U, z = rng.normal(size=(120, 2)), np.repeat(["a", "b"], 60)
    U[z == "b"] += 3.0
    report = audit(U, z, families=(), effort="quick")
    html = report.to_html(tmp_path / "a.html", title="Only figures").read_text(encoding="utf-8")
    assert "<h1>Only figures</h1>" in html
    assert "Verdict: much. Adversaries predict the group much better than chance." in html
    assert 'id="certificate"' not in html
    assert (tmp_path / "a.json").is_file()


def test_a_representation_without_a_model():
    rng = np.random.default_rng(0)
    U, z = rng.normal(size=(120, 2)), np.repeat(["a", "b"], 60)
    quick = {"families": ("linear",), "adversaries": (), "effort": "quick"}
    page = audit_report(U, z, **quick)
    assert page.summary["verdict"]["level"] == "unknown"
    assert page.summary["fit"] is None
    assert "Verdict: not enough was measured." in page.html()
    assert "how it was made is not known" in page.markdown()
    with pytest.raises(InvalidInputError, match="model is a str"):
        audit_report(U, z, model="fair")


def test_the_digest_is_of_the_rows():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(60, 3)), np.repeat(["a", "b"], 30)
    quick = {"families": (), "adversaries": (), "effort": "quick"}
    first, same, other = (
        audit_report(A, z, **quick).summary["record"]["rows_sha256"]
        for A in (X, np.asfortranarray(X), X + 1e-9)
    )
    assert first == same != other


def test_numeric_attributes_and_strata(tmp_path):
    rng = np.random.default_rng(0)
    X, age = rng.normal(size=(150, 4)), rng.uniform(20, 60, 150)
    X[:, 0] += age / 10
    quick = {"families": ("linear",), "adversaries": (), "effort": "quick"}
    strata = rng.integers(0, 2, 150)
    page = audit_report(X, age, control_features=strata, model=FairPCA(1), folds=2, **quick)
    html = page.html()
    assert "up to" in html
    assert "compared within: control_feature" in html


def test_without_jinja_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    _environment.cache_clear()
    with pytest.raises(ImportError, match=re.escape("fairpca[report]")):
        _environment(True)


def test_groups_are_encoded_once(monkeypatch):
    from fairpca.rows import rows as room

    calls, encode = [], room.encode_groups

    def counted(*arguments, **options):
        calls.append(options.get("argument", "sensitive_features"))
        return encode(*arguments, **options)

    monkeypatch.setattr(room, "encode_groups", counted)
    rng = np.random.default_rng(0)
    quick = {"families": (), "adversaries": ("linear",), "effort": "quick"}
    audit_report(rng.normal(size=(90, 3)), np.arange(90) % 2, model=FairPCA(1), folds=2, **quick)
    assert calls == ["sensitive_features"]


def test_what_each_group_keeps_stands_beside_plain_components():
    rng = np.random.default_rng(0)
    z = np.arange(300) % 3
    X = rng.normal(size=(300, 5)) * (1.0 + np.outer(z, [1.0, 0, 0, 0.5, 0]))
    model = FairPCA(2, objective="worst-loss", standardize=True)
    quick = {"families": (), "adversaries": (), "effort": "quick"}
    page = audit_report(X, sensitive_features=z, model=model, folds=0, **quick)
    fitted = model.fit(X, sensitive_features=z)
    groups = page.summary["fit"]["groups"]
    for name in ("variance", "best", "loss"):
        key = name if name == "best" else f"fair_{name}"
        np.testing.assert_allclose([g[key] for g in groups], fitted.group_variance_[name])
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    V = np.linalg.svd(scaled, full_matrices=False)[2][:2].T
    kept = [np.var(scaled[z == g] @ V, axis=0).sum() for g in range(3)]
    np.testing.assert_allclose([g["plain_variance"] for g in groups], kept)
    assert "How well each group is represented" in page.html()


def test_rows_of_unknown_group_are_counted_and_figures_never_replace_the_page(tmp_path):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 120).astype(object)
    sex[:9] = None
    less = {"families": (), "adversaries": (), "effort": "quick"}
    options = {"model": FairPCA(1), "folds": 0, "missing_groups": "leave-out", **less}
    page = audit_report(rng.normal(size=(120, 3)), sex, **options)
    [(_, count)] = page.summary["data"]["unknown"].items()
    assert (count, page.summary["data"]["n_rows"]) == (9, 111)
    with pytest.raises(InvalidInputError, match=r"ends in \.html"):
        page.to_html(tmp_path / "page.json")


def test_small_groups_that_are_the_headline_are_not_said_never_to_be():
    z = np.repeat(["a", "b"], 12)
    U = np.random.default_rng(0).normal(size=(24, 2))
    less = {"families": (), "adversaries": ("linear",), "effort": "quick"}
    html = audit_report(U, z, **less).html()
    assert "fewer than 30 rows" in html
    assert "never the headline" not in html


def test_held_out_rows_are_audited_and_not_fitted():
    rng = np.random.default_rng(0)
    z = rng.permutation(np.arange(800) % 2)
    X = rng.normal(size=(800, 6)) + np.outer(z, rng.normal(size=6))
    how = {"model": FairPCA(2), "families": (), "adversaries": ("linear",), "effort": "quick"}
    decision = X[:, 0] > 0
    page = audit_report(X, z, hold_out=0.25, decisions={"decision": decision}, **how)
    data = page.summary["data"]
    held_out = Rows.read(X, z).held_out(0.25)
    assert data["n_rows"] == held_out.sum() == page.summary["audit"]["decisions"]["n_rows"]
    assert data["n_fitted"] == (~held_out).sum()
    assert "were fitted to" in page.html()
    fair = FairPCA(2).fit(X[~held_out], sensitive_features=z[~held_out])
    fitted = page.summary["fit"]["fair"]["variance"]
    assert fitted == pytest.approx(fair.explained_variance_ratio_.sum())
    # The slider measures the same rows in the same way, so that it shows the figure of the panel.
    chosen = next(point for point in page.path["points"] if point["chosen"])
    panel = audit_report(X, z, hold_out=0.25, **{**how, "adversaries": ("gaussian",)})
    estimate = panel.summary["verdict"]["headline"]["estimate"]
    name = next(name for name in chosen["shown"] if name.startswith("Δ"))
    assert chosen["shown"][name].startswith(f"{100 * estimate:.1f} ±".replace("-", "−"))
    assert "--hold-out 0.25" not in page.html()
    assert "--hold-out 0.25" in audit_report(X, z, folds=0, **how).html()


def test_sparse_components_are_shown_without_zeros_and_with_their_balance():
    rng = np.random.default_rng(0)
    z = np.repeat(["a", "b"], 100)
    X = rng.normal(size=(200, 6)) + np.outer(z == "a", rng.normal(size=6))
    model = SparseFairPCA(2, n_nonzero=3)
    options = {"families": (), "adversaries": ("linear",), "effort": "quick"}
    page = audit_report(X, z, model=model, folds=0, **options)
    components = page.summary["fit"]["loadings"]
    assert [len(component) for component in components] == [3, 3]
    for component in components:
        assert all(entry["fair"] for entry in component)
        assert abs(sum(entry["balance"] for entry in component)) < 1e-9
    assert "balance: loading × group difference" in page.html()


def test_an_audit_compares_what_the_model_compares():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(240, 4)), np.repeat(["a", "b", "c"], 80)
    options = {"families": (), "adversaries": ("linear",), "effort": "quick", "folds": 0}
    pairs = {"b vs a", "c vs a", "c vs b"}
    for model, given, wanted in (
        (FairPCA(1, compare="pairs"), {}, pairs),
        (FairPCA(1), {}, {"a vs rest", "b vs rest", "c vs rest"}),
        (FairPCA(1), {"compare": "pairs"}, pairs),
    ):
        page = audit_report(X, z, model=model, **options, **given)
        measured = page.summary["audit"]["representations"][0]["held_out"]
        assert {row["pair"].partition(": ")[2] for row in measured} == wanted


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
def test_the_path_of_a_limit_on_selection_rates_is_measured_on_held_out_rows():
    rng = np.random.default_rng(0)
    z = rng.permutation(np.arange(400) % 2)
    X = rng.normal(size=(400, 4)) + np.outer(z, rng.normal(size=4))
    model = DeltaFairPCA(2, delta=0.3, family="linear")
    how = {"families": (), "adversaries": ("linear",), "effort": "quick"}
    page = audit_report(X, z, model=model, hold_out=0.3, **how)
    fit, points = page.summary["fit"], page.path["points"]
    chosen = next(point for point in fit["tradeoff"] if point["chosen"])
    for name in ("variance", "mean_gap", "cov_gap"):
        assert chosen[name] == pytest.approx(fit["held_out"][name])
    assert len({point["shown"]["mean gap"] for point in points}) > 1
    assert any("Δ on held-out rows" in name for name in points[0]["shown"])
