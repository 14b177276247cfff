"""Data that all experiments can share."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fairpca.experiments import Options, _methods, search


@pytest.fixture
def toy(monkeypatch):
    """All data sets are one small synthetic table."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 240)
    X = rng.normal(size=(240, 8)) + rng.normal(size=(240, 1))
    factor = np.array([1.6, 0.6, 1.4, 0.7, 1.2, 0.8, 1.5, 0.5])
    X[z == 1] = factor * X[z == 1] + rng.normal(size=8)
    y = (X[:, 0] + rng.normal(size=240) > 0).astype(int)
    monkeypatch.setattr(_methods, "rows_of", lambda name, definition="released": (X, z, y))
    return X, z, y


@pytest.fixture
def hidden(monkeypatch):
    """A file whose printed row was made with column c > 1 protected and the class as label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)) @ rng.normal(size=(5, 5))
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["c"] = rng.integers(0, 4, 600)
    frame["a"] += 1.5 * (frame["c"] > 1)
    data = SimpleNamespace(
        data=frame,
        sensitive_features=pd.DataFrame({"class": (X[:, 1] > 0).astype(int)}),
        target=pd.Series(rng.integers(0, 2, 600), name="DummyMain"),
    )
    monkeypatch.setattr(search, "load_dataset", lambda name: data)
    monkeypatch.setattr(search, "PAIRS_UP_TO", 0)
    reader = search.Reader("any", 2)
    truth = search.Candidate("c", 1.0, ("c", "class"), "all rows")
    splits = enumerate(reader.splits(truth))
    found = [search.full_cells(split, s, Options()) for s, split in splits]
    values = {table: {} for table in ("table1", "table3", "table5")}
    for name in found[0]:
        table, method, measure = name.split()
        values[table]["any", method, measure] = np.mean([cells[name] for cells in found])
    monkeypatch.setattr(search, "printed", lambda table: values[table])
    return reader, truth
