"""Formulas of moments and metrics computed again, on tables that tell them from others."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairpca.metrics import audit, refit_within
from fairpca.moments._held_out import _summary
from fairpca.tables import moments_from_files


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_of_candidates_within_the_limit_the_one_with_most_variance_is_chosen():
    results = {
        "mean_test_delta": [-0.9, -0.1, -0.2, -0.15],
        "mean_test_variance": [0.9, 0.4, 0.7, 0.6],
    }
    assert refit_within(0.2)(results) == 2
    assert refit_within(0.15)(results) == 3


def test_folds_with_a_negative_square_have_a_negative_gap():
    gap = _summary([4.0, -1.0, 9.0])
    assert gap.by_fold == (2.0, -1.0, 3.0)
    assert gap.value == pytest.approx(2.0)
    error = np.std([4.0, -1.0, 9.0], ddof=1) / np.sqrt(3.0)
    assert gap.error == pytest.approx(np.sqrt(4.0 + error) - 2.0)


def test_one_component_is_measured_exactly_wherever_it_stands(rng):
    z = np.arange(80) % 2
    U, V = rng.normal(size=(80, 2)) + z[:, None], rng.normal(size=(80, 1)) + z[:, None]
    for first, second in ((U, V), (V, U)):
        options = {"families": ("linear",), "adversaries": (), "effort": "quick"}
        found = audit(first, z, against=second, **options).representations
        measured = {one.n_components: [result.method for result in one.in_sample] for one in found}
        assert measured == {1: ["exact"], 2: ["svm", "search"]}


def imputed(frame, feature):
    """A number, or an indicator of a word, with the mean of known rows in place of others."""
    name, _, word = feature.partition("=")
    values = (
        frame[name] if not word else (frame[name] == word).astype(float).where(frame[name].notna())
    )
    return values.fillna(values.mean()).to_numpy(float)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.ImputedValuesWarning")
def test_parts_with_other_words_and_missing_values_are_merged(rng, tmp_path):
    n = 40
    frame = pd.DataFrame(
        {"x": rng.normal(size=n), "y": rng.normal(size=n), "g": ["a", "b"] * (n // 2)}
    )
    frame["c"] = np.r_[rng.choice(["u", "v"], n // 2), rng.choice(["v", "w", "z"], n // 2)]
    frame.loc[[1, 4, 25], "x"], frame.loc[[3, 30, 31], "c"] = np.nan, None
    parts = []
    for number, part in enumerate((frame[: n // 2], frame[n // 2 :])):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), path)
        parts.append(moments_from_files(path, ["g"], categorical=["c"], missing="mean"))
    for merged in (parts[0] + parts[1], parts[1] + parts[0]):
        assert sorted(merged.feature_names) == ["c=u", "c=v", "c=w", "c=z", "x", "y"]
        X = np.column_stack([imputed(frame, name) for name in merged.feature_names])
        one, other = X[::2], X[1::2]
        [contrast] = merged.contrasts()
        gap = np.abs(contrast.mean_gap)
        np.testing.assert_allclose(gap, np.abs(one.mean(axis=0) - other.mean(axis=0)), atol=1e-12)
        expected = np.cov(one.T, bias=True) - np.cov(other.T, bias=True)
        np.testing.assert_allclose(np.abs(contrast.cov_gap), np.abs(expected), atol=1e-12)
