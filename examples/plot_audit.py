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

plain = PCA(2).fit_transform(X)
fair = FairPCA(2).fit(X, sensitive_features=group).transform(X)
report = audit(fair, group, against={"plain PCA": plain}, effort="quick")

# %%
# A dot inside its grey bar is what chance alone gives. A diamond is measured on held-out
# rows; if its line crosses zero, the classifier may be no better than chance there.
figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
DeltaDisplay.from_audit(report, ax=ax)
ax.set_title("FairPCA", loc="left")

# %%
# Plain PCA was measured on the same rows by the same adversaries.
print(report.differences[0].text())

# %%
# The whole report, as a notebook shows it.
report
