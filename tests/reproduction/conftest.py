"""Data that the tests of the reproduction share."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from reproduction import methods, search
from reproduction.methods import FULL


@pytest.fixture
def toy(monkeypatch):
    """All data sets are one small synthetic table."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 240)
    X = rng.normal(size=(240, 8)) + rng.normal(size=(240, 1))
    factor = np.array([1.6, 0.6, 1.4, 0.7, 1.2, 0.8, 1.5, 0.5])
    X[z == 1] = factor * X[z == 1] + rng.normal(size=8)
    y = (X[:, 0] + rng.normal(size=240) > 0).astype(int)
    monkeypatch.setattr(methods, "rows_of", lambda name, definition="released": (X, z, y))
    return X, z, y


@pytest.fixture
def hidden(monkeypatch):
    """A file whose printed row was made with column c > 1 protected and the class as label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)) @ rng.normal(size=(5, 5))
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["c"] = rng.integers(0, 4, 600)
    frame["a"] += 1.5 * (frame["c"] > 1)
    groups = pd.DataFrame({"class": (X[:, 1] > 0).astype(int)})
    data = Bunch(
        feature_names=list(frame.columns),
        sensitive_features=groups,
        target_name="DummyMain",
        frame=frame.join(groups),
    )
    monkeypatch.setattr(search, "load_dataset", lambda name: data)
    monkeypatch.setattr(search, "PAIRS_UP_TO", 0)
    reader = search.Reader("any", 2)
    truth = search.Candidate("c", 1.0, ("c", "class"), "all rows")
    splits = enumerate(reader.splits(truth))
    measured = [search.full_cells(split, s, FULL) for s, split in splits]
    values = {table: {} for table in ("table1", "table3", "table5")}
    for name in measured[0]:
        table, method, measure = name.split()
        values[table]["any", method, measure] = np.mean([cells[name] for cells in measured])
    monkeypatch.setattr(search, "printed", lambda table: values[table])
    return reader, truth
