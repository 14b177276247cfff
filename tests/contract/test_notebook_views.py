"""What notebooks show: short, complete, escaped, and without links to the pages of others."""

import re

import numpy as np
import pandas as pd
import pytest
from notebook_views import hostile_rows, views

from fairpca import Certificate, DeltaFairPCA, FairKernelPCA, FairPCA, GroupMoments, load_model


@pytest.fixture(scope="module")
def shown():
    return {name: value._repr_html_() for name, value in views().items()}


@pytest.mark.parametrize(
    "name", ["certificate", "delta", "audit", "decisions", "moments", "contrasts"]
)
def test_views_are_tables_with_escaped_text(shown, name):
    html = shown[name]
    assert html.count("<table>") == html.count("</table>") == 1
    assert "&lt;script&gt;" in html
    tags = set(re.findall(r"</?([a-z]+)", html))
    assert tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


def test_every_row_has_a_cell_for_each_column(shown):
    for name in ("delta", "audit", "decisions", "moments", "contrasts", "contrasts_"):
        head, *rows = shown[name].split("<tr>")[1:]
        assert {row.count("<td>") for row in rows} == {head.count("<th")}


def test_figures_of_a_certificate_are_all_there():
    html = Certificate(9.9, 10.0, 0.5, 0.125, 10.0, 0.0, "refined", True, False)._repr_html_()
    for text in ("within 1.0 % of optimal (proven)", "9.9", "0.125", "refined", "False"):
        assert text in html


def test_moments_say_who_was_summed_and_not_the_sums():
    rng = np.random.default_rng(0)
    groups = pd.DataFrame({"sex": ["f", "m"] * 100, "age": rng.normal(size=200)})
    moments = GroupMoments.from_arrays(rng.normal(size=(200, 105)), groups, ["x"] * 200)
    text = repr(moments)
    assert text == (
        "GroupMoments(200 rows, 105 features; sex: 'f' 100, 'm' 100; age: numeric; "
        "strata: control_feature)"
    )
    assert len(repr(moments.contrasts())) < 100
    many = GroupMoments.from_arrays(np.eye(40), np.arange(40) // 2)
    assert "… (20 groups)" in repr(many)


def test_contrasts_stay_a_table_after_a_round_trip(tmp_path):
    X, groups, _ = hostile_rows()
    fair = FairPCA(2).fit(X, sensitive_features=groups)
    again = load_model(fair.save(tmp_path / "model"))
    assert again.contrasts_ == fair.contrasts_
    assert again.contrasts_._repr_html_() == fair.contrasts_._repr_html_()
    assert len(pd.DataFrame(again.contrasts_)) == 1


@pytest.mark.parametrize("make", [FairPCA, FairKernelPCA, DeltaFairPCA])
def test_no_link_leads_to_pages_of_another_package(make):
    links = re.findall(r'href="([^"]*)"', make()._repr_html_())
    assert not [link for link in links if "modules/generated" in link]
