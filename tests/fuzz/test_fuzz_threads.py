"""Fits, saves and metrics in several threads: the results of one thread, and BLAS as it was.

`run(tries, seed)` returns failures by class.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from fuzzing import campaign, same
from threadpoolctl import ThreadpoolController

from fairpca import FairPCA, load_model


def blas_threads():
    return [
        info["num_threads"] for info in ThreadpoolController().info() if info["user_api"] == "blas"
    ]


def attempt(rng):
    n, p = int(rng.integers(20, 60)), int(rng.integers(2, 6))
    X, z = rng.normal(size=(n, p)), np.arange(n) % 2
    X[:, 0] += z
    settings = {"n_components": 1, "cov_weight": float(rng.uniform(0, 2))}
    alone = FairPCA(**settings).fit(X, sensitive_features=z)
    before = blas_threads()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        path = Path(folder, "model.npz")

        def work(_):
            fair = FairPCA(**settings).fit(X, sensitive_features=z)
            fair.save(path)
            return fair.components_

        for components in pool.map(work, range(6)):
            same(np.abs(components @ alone.components_.T), [[1.0]], "components", 1e-7)
        same(load_model(path).mean_, alone.mean_, "saved", 1e-12)
        assert [entry.name for entry in Path(folder).iterdir()] == ["model.npz"], "litter"
    assert blas_threads() == before, "BLAS is left with other threads"


def run(tries, seed):
    return campaign(attempt, tries, seed)


def test_threads():
    assert run(10, seed=1) == {}
