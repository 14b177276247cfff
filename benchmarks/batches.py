"""Components without the batch: fairpca next to ComBat, Harmony and LEACE on made tables.

    python benchmarks/batches.py      benchmarks/results/batches.json; two minutes

Needs `pip install harmonypy neuroCombat` for two of the methods. Tables have 1,500 rows, 50
features, three batches and three conditions. "balanced": a batch shifts the features.
"unbalanced": four of five rows of a condition come from one batch. "own shift": the shift is
another one for every condition, and each batch has its own spread. Every method is fitted to all
rows and makes five columns, Harmony twenty. Conditions: adjusted Rand index of three clusters with
the conditions, 1 at best. Batch: share of rows whose batch is predicted, five folds; 0.33 by
chance, and 0.8 from the condition alone in "unbalanced". Averages over five tables.
"""

import contextlib
import io
import logging
import warnings

import numpy as np
import results
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from fairpca import FairPCA

N, P, D, TABLES = 1500, 50, 5, 5
CASES = ("balanced", "unbalanced", "own shift")


def draw(case, seed):
    """Rows, their batch and their condition."""
    rng = np.random.default_rng(seed)
    condition = rng.integers(0, 3, N)
    stays = rng.random(N) < (0.7 if case == "unbalanced" else 0.0)
    batch = np.where(stays, condition, rng.integers(0, 3, N))
    kinds = 1.5 * rng.normal(size=(3, P)) * (rng.random(P) < 0.3)
    shifts = rng.normal(size=(3, 3, P)) * (rng.random(P) < 0.6)
    shifts = shifts if case == "own shift" else shifts[:1].repeat(3, axis=0)
    spread = np.array([0.7, 1.0, 1.4]) if case == "own shift" else np.ones(3)
    factors = rng.normal(size=(N, 3)) @ rng.normal(size=(3, P)) * 0.3
    X = kinds[condition] + shifts[condition, batch]
    return X + (factors + rng.normal(size=(N, P))) * spread[batch, None], batch, condition


def pca(X, batch, condition):
    """Plain components."""
    return PCA(D).fit_transform(X)


def equal_means(X, batch, condition):
    """Equal means of the batches."""
    return FairPCA(D, cov_weight=0).fit_transform(X, sensitive_features=batch)


def fair(X, batch, condition):
    """Covariances as well."""
    return FairPCA(D).fit_transform(X, sensitive_features=batch)


def within(X, batch, condition):
    """Batches compared inside every condition."""
    model = FairPCA(D)
    return model.fit_transform(X, sensitive_features=batch, control_features=condition)


def leace(X, batch, condition):
    """The least change after which no linear rule predicts the batch, then PCA."""
    return PCA(D).fit_transform(erase(X, batch))


def erase(X, z):
    """LEACE of groups in closed form: x - W⁺PW(x - mean), P the projector on the span of W·cov."""
    centred, indicators = X - X.mean(axis=0), np.eye(z.max() + 1)[z]
    values, vectors = np.linalg.eigh(centred.T @ centred / len(X))
    kept = values > 1e-10 * values[-1]
    root = np.sqrt(values[kept])
    whiten, back = (vectors[:, kept] / root).T, vectors[:, kept] * root
    cross = whiten @ centred.T @ (indicators - indicators.mean(axis=0)) / len(X)
    U, s, _ = np.linalg.svd(cross, full_matrices=False)
    U = U[:, s > 1e-8 * s[0]]
    return X - centred @ (back @ U @ U.T @ whiten).T


def combat(X, batch, condition, known=False):
    """ComBat, then PCA."""
    import pandas as pd
    from neuroCombat import neuroCombat

    table = pd.DataFrame({"batch": batch + 1, "condition": condition.astype(str)})
    names = ["condition"] if known else None
    with contextlib.redirect_stdout(io.StringIO()):
        done = neuroCombat(dat=X.T, covars=table, batch_col="batch", categorical_cols=names)
    return PCA(D).fit_transform(done["data"].T)


def combat_known(X, batch, condition):
    """ComBat that knows the condition, then PCA."""
    return combat(X, batch, condition, known=True)


def harmony(X, batch, condition):
    """Harmony on twenty plain components, as it is used."""
    import harmonypy
    import pandas as pd

    logging.getLogger("harmonypy").setLevel(logging.ERROR)
    scores, table = PCA(20).fit_transform(X), pd.DataFrame({"batch": batch.astype(str)})
    moved = np.asarray(harmonypy.run_harmony(scores, table, "batch", verbose=False).Z_corr)
    return moved if len(moved) == len(X) else moved.T


METHODS = {
    "PCA": pca,
    "FairPCA, equal means": equal_means,
    "FairPCA": fair,
    "FairPCA, condition as control": within,
    "LEACE, then PCA": leace,
    "ComBat, then PCA": combat,
    "ComBat with condition, then PCA": combat_known,
    "Harmony": harmony,
}


def measure(U, batch, condition):
    """What clusters and classifiers find in the columns."""
    U = U / U.std()
    clusters = KMeans(3, n_init=10, random_state=0).fit_predict(U)
    linear = cross_val_score(LogisticRegression(), U, batch, cv=5).mean()
    near = cross_val_score(KNeighborsClassifier(15), U, batch, cv=5).mean()
    return adjusted_rand_score(condition, clusters), linear, near


def main():
    warnings.simplefilter("ignore")
    rows = []
    for case in CASES:
        for name, method in METHODS.items():
            tables = [draw(case, seed) for seed in range(TABLES)]
            try:
                found = np.mean([measure(method(*t), *t[1:]) for t in tables], axis=0)
            except ImportError as error:
                print(f"{name}: {error}")
                continue
            conditions, linear, near = (round(float(value), 3) for value in found)
            rows.append({"case": case, "method": name, "conditions": conditions})
            rows[-1] |= {"batch, linear": linear, "batch, neighbours": near}
            print(*rows[-1].values(), sep="  ", flush=True)
    results.save("batches", rows)


if __name__ == "__main__":
    main()
