"""Does fair kernel PCA help where fair PCA does not?

Olfat and Aswani (2019) leave it for future work whether a kernel version of fair PCA protects
better against Gaussian-kernel classifiers. This example asks it of one data set, in a minute:

    python examples/kernel_question.py                 two shells, made here
    python examples/kernel_question.py wine_quality    a data set of the paper (needs FAIRPCA_DATA)

benchmarks/kernel.py asks it of all fifteen; docs/guides/kernel.md has the answer.
"""

import sys

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fairpca import FairKernelPCA, FairPCA
from fairpca.datasets import load_dataset
from fairpca.metrics import delta_fairness

PLAIN = {"mean_tol": None, "cov_weight": 0.0}


def two_shells(n_rows=1200, seed=0):
    """Groups with equal means on two circles of different radius, seen through six features."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n_rows)
    angle = rng.uniform(0.0, 2.0 * np.pi, n_rows)
    radius = 2.0 + z + 0.3 * rng.normal(size=n_rows)
    circle = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    X = np.hstack([circle, circle, np.zeros((n_rows, 2))])
    return X + 0.5 * rng.normal(size=X.shape), z


def rows_of(name):
    if name is None:
        return two_shells()
    data = load_dataset(name)
    return data.data.to_numpy(float), data.sensitive_features.to_numpy()[:, 0]


def main(name=None):
    X, z = rows_of(name)
    train, test, z_train, z_test = train_test_split(
        X, z, train_size=min(0.7, 2000 / len(X)), stratify=z, random_state=0
    )
    test, z_test = test[:300], z_test[:300]
    scaler = StandardScaler().fit(train)
    methods = {
        "PCA": FairPCA(2, **PLAIN),
        "FairPCA": FairPCA(2),
        "KernelPCA": FairKernelPCA(2, n_landmarks=200, rank=100, **PLAIN),
        "FairKernelPCA": FairKernelPCA(2, n_landmarks=200, rank=100),
    }
    print(f"{name or 'two shells'}: {len(train)} rows to fit, {len(test)} to test, d = 2")
    print(f"{'':<15}{'Δ linear':>10}{'null':>7}{'Δ Gaussian':>12}{'null':>7}{'% variance':>12}")
    for label, model in methods.items():
        model.fit(scaler.transform(train), sensitive_features=z_train)
        U = model.transform(scaler.transform(test))
        linear = delta_fairness(U, z_test, method="search", n_permutations=19)
        gaussian = delta_fairness(U, z_test, family="rbf", n_permutations=19)
        variance = 100 * model.explained_variance_ratio_.sum()
        print(
            f"{label:<15}{linear.value:>10.2f}{linear.null.mean:>7.2f}"
            f"{gaussian.value:>12.2f}{gaussian.null.mean:>7.2f}{variance:>12.1f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:2])
