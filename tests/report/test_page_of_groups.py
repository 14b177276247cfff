"""What the page of a table with small groups, two attributes and held-out rows says of each."""

import re

import numpy as np
import pandas as pd
import pytest

from fairpca import FairPCA, SparseFairPCA
from fairpca._present import number, with_error
from fairpca.report import audit_report
from fairpca.report._display import COLOURS, group_style
from fairpca.rows import Rows

QUICK = {"families": (), "adversaries": ("linear",), "effort": "quick"}
NO_PATH = {"folds": 0, **QUICK}
pytestmark = pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")


def table(n=1200):
    """Rows of two large groups that differ, one small group that differs and one that does not."""
    rng = np.random.default_rng(3)
    race = rng.choice(["a", "b"], n).astype(object)
    race[:90], race[90:110] = "differs", "random"
    order = rng.permutation(n)
    race, sex = race[order], rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 5))
    X[:, 0] += race == "b"
    X[:, 1] += 3.0 * (race == "differs")
    X[:, 2] *= 1.0 + (sex == "f")
    outcome = rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, 3]))
    return X, pd.DataFrame({"race": race, "sex": sex}), np.where(outcome, "yes", "no")


@pytest.fixture(scope="module")
def page():
    X, groups, outcome = table()
    model = FairPCA(2, target_weight=1.0)
    return audit_report(X, groups, model=model, y=outcome, hold_out=0.25, **QUICK)


def text_of(html):
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def test_what_was_done_with_each_group_is_said_with_its_size(page):
    X, groups, _ = table()
    fitted = groups[~Rows.read(X, groups).held_out(0.25)]["race"].value_counts()
    text = text_of(page.html())
    said = (
        "race (a, b). Only means compared (small group, fewer than 500 rows): differs "
        f"({fitted['differs']} rows). Not compared (small group, no difference beyond chance): "
        f"random ({fitted['random']} rows). sex (f, m)."
    )
    assert f"What was protected? {said}" in text
    assert "A group is small where it and all smaller ones hold less than 10 % of the rows" in text
    assert "random" in page.markdown().split("## Figures")[0]
    statuses = {group["group"]: group["in_fit"] for group in page.summary["data"]["groups"]}
    assert statuses["a"] == statuses["m"] == "compared"
    assert statuses["random"].startswith("not compared")
    assert statuses["differs"].startswith("mean only")


def test_a_large_group_is_not_called_small():
    X, _, _ = table(400)
    foreign = np.repeat(["yes", "no"], [370, 30])
    X[foreign == "no"] += 3.0
    page = audit_report(X, foreign, model=FairPCA(2), **NO_PATH)
    status = {group["group"]: group["in_fit"] for group in page.summary["data"]["groups"]}
    assert status["no"] == "mean only: small group, fewer than 500 rows"
    assert status["yes"] == "mean only: the other group is small, fewer than 500 rows"


def test_an_audit_alone_names_all_groups():
    X, groups, _ = table(300)
    page = audit_report(X, groups["sex"], **QUICK)
    assert "What was protected? sex (f, m)." in text_of(page.html())


def test_a_group_with_too_few_rows_to_say_is_marked_in_the_table():
    groups = np.repeat(["a", "b", "c"], [500, 500, 32])
    U = np.random.default_rng(2).normal(size=(1032, 2))
    U[groups == "c", 0] += 0.3
    page = audit_report(U, groups, **QUICK)
    marked = {group["group"]: group["in_audit"] for group in page.summary["data"]["groups"]}
    assert marked == {"a": "compared", "b": "compared", "c": "too few rows to say"}
    text = text_of(page.html())
    assert "c 32 3.1 % too few rows to say" in text
    assert page.summary["audit"]["design"]["n_rows"] == 400  # of an audit that measures little
    assert "It was measured on 400 rows drawn from 1,032 rows; a higher effort draws more." in text
    assert "trained on one half of 400 rows drawn from 1,032 rows, measured on the other" in text


def test_groups_are_drawn_alike_and_tiny_ones_are_named(page):
    data, path = page.summary["data"], page.path
    small = next(group for group in data["groups"] if group["group"] == "random")
    assert small["n_rows"] < data["min_group"]
    text = text_of(page.html())
    rough = next(group for group in data["groups"] if group["group"] == "differs")
    left_out = [group for group in (rough, small) if group["n_rows"] < data["min_group"]]
    named = ", ".join(f"{group['group']} ({group['n_rows']} rows)" for group in left_out)
    assert f"Not drawn: {named}. Pictures show the largest groups, of at least 30 rows." in text
    drawn = [group["group"] for group in data["groups"] if group["drawn"]]
    shown = [name for about in path["attributes"] for name in about["groups"].values()]
    assert shown == drawn
    for point in path["points"]:
        for about, shapes in zip(path["attributes"], point["ellipses"], strict=True):
            assert list(shapes) == list(about["groups"])


def test_the_slider_has_the_colours_of_the_pictures(page):
    assert [group_style(place).colour for place in range(7)] == list(page.path["colours"])
    assert page.path["colours"] == COLOURS


def test_where_no_group_is_large_enough_all_are_drawn_with_a_note():
    rng = np.random.default_rng(0)
    sex = np.repeat(["f", "m"], 20)
    page = audit_report(rng.normal(size=(40, 3)), sex, model=FairPCA(2), **NO_PATH)
    assert "Ellipses of so few rows are mostly chance: f (20 rows), m (20 rows)." in text_of(
        page.html()
    )


def test_every_difference_of_the_trade_off_names_its_groups(page):
    pairs = {point["shown"]["largest for"] for point in page.path["points"]}
    known = {"race: a vs rest", "race: b vs rest", "race: differs vs rest", "sex: m vs f"}
    assert pairs <= known
    html = page.html()
    assert html.count("largest for</th>") >= 2  # the slider and the table
    assert 'data-figure="largest for"' in html


def test_figures_above_a_picture_are_of_its_attribute(monkeypatch):
    from fairpca.report import _audit_report

    captions = {}

    class Kept(_audit_report.BeforeAfterDisplay):
        def plot(self, **options):
            captions[self.groups] = self.captions
            return super().plot(**options)

    monkeypatch.setattr(_audit_report, "BeforeAfterDisplay", Kept)
    X, groups, _ = table()
    page = audit_report(X, groups, model=FairPCA(2), hold_out=0.25, **NO_PATH)
    contrasts = page.summary["fit"]["contrasts"]
    for attribute in ("race", "sex"):
        (own,) = (c for names, c in captions.items() if set(names) <= set(groups[attribute]))
        fair = next(text for title, text in own.items() if title.startswith("Fair PCA"))
        gaps = [c["cov_gap"] for c in contrasts if c["attribute"] == attribute and c["cov_gap"]]
        assert fair.endswith(f"covariance gap {max(gaps):.3f}")
        assert all("fitted rows" in title for title in own)
    assert len({str(own) for own in captions.values()}) == 2


def test_tables_say_which_rows_they_are_of(page):
    data, text = page.summary["data"], text_of(page.html())
    fitted, audited = f"{data['n_fitted']:,} fitted rows", f"{data['n_rows']:,} rows that were not"
    assert f"On {fitted}. The stronger the colour" in text
    assert f"what it loses, on {fitted}" in text
    assert f"Plain PCA and fair PCA: {fitted}" in text
    assert f"trained on one half of {audited} fitted, measured on the other" in text
    assert "rows drawn from" not in text
    assert "ellipses are of rows that were not fitted" in text
    sizes = {group["group"]: group["n_fitted"] for group in data["groups"]}
    assert sizes["f"] + sizes["m"] == data["n_fitted"]


def test_rates_have_one_reference_and_every_dash_a_reason(page):
    model = page.summary["fit"]["target"]["models"][-1]
    for attribute in ("race", "sex"):
        rates = [rate for rate in model["rates"] if rate["attribute"] == attribute]
        assert len({rate["reference"] for rate in rates if "reference" in rate}) == 1
        base = {r["measure"]: r["rate"] for r in rates if r.get("reference") == r["group"]}
        for rate in rates:
            assert (rate["difference"] is None) == ("reference" not in rate)
            if rate["difference"] is not None:
                assert rate["difference"] == pytest.approx(rate["rate"] - base[rate["measure"]])
    assert "not compared: fewer than 30 rows" in page.html()


def test_equalised_odds_say_what_they_rest_on():
    rng = np.random.default_rng(0)
    sex = np.repeat(["f", "m"], [60, 340])
    X = rng.normal(size=(400, 4))
    y = X[:, 0] + rng.normal(size=400) > np.where(sex == "f", -0.9, 0.0)  # few women without it
    page = audit_report(X, sex, model=FairPCA(2, target_weight=1.0), y=y, **NO_PATH)
    model = page.summary["fit"]["target"]["models"][-1]
    assert model["odds_of"] == ["true positives"]
    said = "Of true positives only, since fewer than two groups have enough rows for the other"
    sizes = sorted(int(y[sex == group].sum()) for group in "fm")
    rests_on = f"rate, it compares 2 rates, each of a group of {sizes[0]} to {sizes[1]} rows."
    for text in (text_of(page.html()), page.markdown()):
        assert f"{said} {rests_on}" in text


def test_a_target_with_groups_that_are_numbers_has_no_rates_by_group():
    X, _, outcome = table(400)
    age = pd.DataFrame({"age": np.random.default_rng(0).normal(size=400)})
    model = FairPCA(2, target_weight=1.0)
    page = audit_report(X, age, model=model, y=outcome, numeric=["age"], **NO_PATH)
    assert "difference in selection rates</th>" not in page.html()
    assert "| fair PCA with target | 0." in page.markdown()


def test_a_number_is_cut_alike_in_all_tables_of_a_page():
    X, _, _ = table(401)
    age = pd.DataFrame({"age": np.random.default_rng(0).integers(18, 90, 401)})
    page = audit_report(X, age, model=FairPCA(2), numeric=["age"], **NO_PATH | {"folds": 2})
    pairs = {point["shown"]["largest for"] for point in page.path["points"]}
    assert pairs == {page.summary["verdict"]["headline"]["pair"]}


def test_a_card_has_the_chance_levels_of_a_page():
    X, groups, _ = table(400)
    page = audit_report(X, groups["sex"], model=FairPCA(2), **NO_PATH | {"folds": 3})
    held_out = page.summary["fit"]["held_out"]
    for name in ("mean gap", "covariance gap"):
        [line] = [line for line in page.markdown().splitlines() if line.startswith(f"| {name} ")]
        key = "mean_gap" if name == "mean gap" else "cov_gap"
        shown = [with_error(held_out[k], held_out[f"{k}_error"]) for k in (f"plain_{key}", key)]
        shown.append(number(held_out[f"chance_{key}"]))
        assert line.endswith(f"| {' | '.join(shown)} |")


def test_groups_without_a_pair_are_not_measured():
    X, _, _ = table(400)
    race = np.repeat(["a", "b", "c", "d"], [200, 177, 20, 3])
    page = audit_report(X, race, model=FairPCA(2), **NO_PATH)
    said = {group["group"]: group["in_audit"] for group in page.summary["data"]["groups"]}
    assert said == {
        "a": "compared",
        "b": "compared",
        "c": "fewer than 30 rows: never the headline",
        "d": "not measured: too few rows",
    }
    for text in (page.html(), page.markdown()):
        assert "not measured: too few rows" in text


def test_the_certificate_of_a_page_is_that_of_the_terminal():
    X, groups, _ = table(400)
    rotated = audit_report(X, groups["sex"], model=FairPCA(2, rotation="varimax"), **NO_PATH)
    assert re.search(r"The rotated scores are correlated, up to 0\.\d\d\.", text_of(rotated.html()))
    sparse = audit_report(X, groups["sex"], model=SparseFairPCA(2, n_nonzero=3), **NO_PATH)
    text = text_of(sparse.html())
    assert "The fair components explain" in text  # not orthogonal: nothing is kept
    said = r"explains [\d.]+ %; no 2 scores with equal group means explain more than [\d.]+ %"
    assert re.search(f"Certificate: {said}", text)
    assert "local optimum" not in text
    assert "share of the table that a regression on the scores explains" in text
    assert re.search(said, sparse.markdown())
