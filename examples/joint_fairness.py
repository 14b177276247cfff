"""Pairwise fairness can hide an intersection; joint fairness removes it.

The paper warns that a representation can be fair to women and fair to a racial group and still
single out the women of that group. First on made data, where the effect is built in, then on the
raw Adult data, where they are present (set FAIRPCA_DATA).

    python examples/joint_fairness.py
"""

import numpy as np

from fairpca import FairPCA
from fairpca.datasets import list_datasets, load_dataset
from fairpca.metrics import delta_fairness


def made_data(n=4000, seed=3):
    """Return rows and two attributes whose margins are equal while their cells are not."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    sex, race = rng.integers(0, 2, (2, n))
    X = rng.normal(size=(n, 6))
    # Opposite shifts in opposite corners cancel in every margin.
    X[:, 0] += 3.0 * np.where(sex == race, 1.0, -1.0)
    groups = pd.DataFrame({"sex": np.where(sex, "f", "m"), "race": np.where(race, "a", "b")})
    return X, groups


def numeric_features(frame):
    import pandas as pd

    X = pd.get_dummies(frame, drop_first=True, dtype=float).to_numpy(dtype=float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def worst_cell(U, groups, smallest=100):
    """Return the intersection that a linear SVM tells best from everybody else, with its null."""
    cells = groups.astype(str).agg(" × ".join, axis=1).to_numpy()
    names, sizes = np.unique(cells, return_counts=True)
    values = {
        name: float(delta_fairness(U, cells == name))
        for name, size in zip(names, sizes, strict=True)
        if size >= smallest
    }
    name = max(values, key=values.get)
    return name, delta_fairness(U, cells == name, n_permutations=99, random_state=0)


def compare(title, X, groups, n_components=2):
    print(f"\n{title}: {X.shape[0]} rows, {X.shape[1]} features")
    print(f"  {'fit':<9} {'variance':>8}  {'margins':>8}  {'worst intersection':<20} Δ linear")
    for name, joint in (("pairwise", False), ("joint", True)):
        fair = FairPCA(n_components, joint=joint).fit(X, sensitive_features=groups)
        U = fair.transform(X)
        margins = max(float(delta_fairness(U, groups[column])) for column in groups)
        cell, delta = worst_cell(U, groups)
        share = 100 * fair.explained_variance_ratio_.sum()
        note = f"(null 95 % {delta.null.quantile:.3f}, p = {delta.p_value:.2f})"
        print(f"  {name:<9} {share:>7.1f}%  {margins:>8.3f}  {cell:<20} {float(delta):.3f} {note}")


def adult_sex_and_marriage(n=4000):
    adult = load_dataset("adult_raw")
    rows = np.random.default_rng(0).permutation(len(adult.data))[:n]
    attributes = adult.sensitive_features.iloc[rows]
    is_married = attributes["marital_status"].str.startswith("Married-")
    groups = attributes[["sex"]].assign(marriage=np.where(is_married, "married", "single"))
    return numeric_features(adult.data.drop(columns="fnlwgt").iloc[rows]), groups


def main():
    compare("Made data", *made_data())
    present = {status.info.name for status in list_datasets() if status.path is not None}
    if "adult_raw" in present:
        compare("Adult, sex and marriage", *adult_sex_and_marriage())
    else:
        print("\nThe raw Adult data are not here: set FAIRPCA_DATA to see the real example.")


if __name__ == "__main__":
    main()
