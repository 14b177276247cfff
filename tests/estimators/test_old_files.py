"""Files that version 0.1.0 wrote are read by every later version."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairpca import GroupMoments
from fairpca.estimators import load_model

FILES = Path(__file__).parents[1] / "files"


def test_moments_of_0_1_0():
    moments = GroupMoments.load(FILES / "moments-0.1.0.npz")
    assert (moments.n_samples, moments.attributes, moments.controls) == (
        60,
        ("sex", "code", "age"),
        ("y",),
    )
    assert moments.numeric_attributes == ("age",)
    assert moments.levels("code") == (0.0, 1.0)
    X = np.random.default_rng(7).normal(size=(60, 8))
    np.testing.assert_allclose(moments.pooled().mean, X.mean(axis=0), atol=1e-15)


def test_a_model_of_0_1_0():
    model, (mean, scale) = load_model(FILES / "model-0.1.0.npz")
    moments = GroupMoments.load(FILES / "moments-0.1.0.npz")
    np.testing.assert_array_equal(scale, moments.standardization().scale)
    again = type(model)(**model.get_params()).fit_moments(moments.standardized())
    assert abs(again.components_ @ model.components_.T).item() == pytest.approx(1.0, abs=1e-6)
    row = pd.DataFrame([mean], columns=model.feature_names_in_)
    np.testing.assert_allclose(model.transform((row - mean) / scale), [[0.0]], atol=1e-12)
