"""
Auditing a representation
=========================

``audit`` measures how well classifiers predict the group from any representation: families with
their permutation nulls, and adversaries trained on one half of the rows and measured on the other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.metrics import audit
from fairpca.report import DeltaDisplay

rng = np.random.default_rng(0)
n = 600
group = np.where(rng.random(n) < 0.4, "b", "a")
X = rng.normal(size=(n, 8)) * np.linspace(2, 1, 8)
X[group == "b"] = X[group == "b"] * np.linspace(1.8, 1, 8) + np.linspace(0.8, 0, 8)

few = {"n_permutations": 99, "slow_permutations": 19, "budget": 8, "random_state": 0}
reports = {
    "plain PCA": audit(PCA(2).fit_transform(X), group, **few),
    "FairPCA": audit(FairPCA(2).fit(X, sensitive_features=group).transform(X), group, **few),
}

# %%
# A dot inside its grey bar is what chance alone gives. A diamond is measured on held-out
# rows; if its line crosses zero, the classifier may be no better than chance there.
figure, axes = plt.subplots(2, 1, figsize=(8, 9), layout="constrained")
for ax, (name, report) in zip(axes, reports.items(), strict=True):
    DeltaDisplay.from_audit(report, ax=ax)
    ax.set_title(name, loc="left")

# %%
# The whole report, as a notebook shows it.
reports["FairPCA"]
