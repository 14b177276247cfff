"""What is typed becomes names and values, and values become text."""

import pytest

from fairpca import Certificate
from fairpca._present import (
    label,
    levels_text,
    number,
    optimality,
    points_text,
    verdict,
    visible,
)
from fairpca.cli._console import as_typed
from fairpca.cli._request import read_only, read_reference, split_names


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (split_names(["a,b", "height, cm", "a"], ["a", "b", "height, cm"]),
         ("a", "b", "height, cm", "a")),
        (read_only(["held_out=true", "a=b=c"], ["held_out", "a=b"]),
         {"held_out": "true", "a=b": "c"}),
        (read_reference(["white"], ["race"]), "white"),
        (read_reference(["race=white"], ["race", "sex"]), {"race": "white"}),
        (as_typed("missing", "mean"), "--missing mean"),
        (as_typed("drop", ["id", "date"]), "--drop id,date"),
        (as_typed("force", True), "--force"),
    ],
)  # fmt: skip
def test_options(written, expected):
    assert written == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (visible("a\x1b[31mb"), r"a\x1b[31mb"),
        (label("sex", "f", "m", {"age": "old"}), "sex: f vs m where age=old"),
        (label("sex", "f"), "sex: f"),
        (levels_text(["sex", "age"], ["f", "old"]), "sex=f, age=old"),
        (number(0.12345), "0.123"),
        (number(123.456), "123.5"),
        (number(2e-5), "2.0e-05"),
        (number(1e-17, 1.0), "0"),
        (number(None), "–"),
        (points_text(-0.091, -0.12, -0.063), "−9.1 points (−12.0 to −6.3)"),
        (optimality(0.0), "optimal"),
        (optimality(0.01761), "within 1.8 % of optimal"),
    ],
)
def test_names_and_numbers(written, expected):
    assert written == expected


def test_a_gap_that_is_open_is_said_to_be():
    open_gap = Certificate(9.0, 10.0, 0.0, 0.1, 10.0, 0.0, "refined", True, True)
    assert verdict(open_gap.as_dict()) == (
        "a local optimum; at most 11.2 % more is possible, and more iterations will not narrow "
        "this: the bound is loose or a better optimum is elsewhere"
    )
