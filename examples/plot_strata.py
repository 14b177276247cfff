"""
Equalised odds: groups compared within strata
=============================================

Where groups differ in the outcome, equal means over all rows remove what is known about the
outcome too. ``control_features`` compares the groups inside each stratum of it instead, which is
what equalised odds ask of a classifier.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from fairpca import FairPCA
from fairpca.report import ContrastsDisplay

rng = np.random.default_rng(1)
n = 4000
outcome = rng.integers(0, 2, n)
group = (rng.random(n) < np.where(outcome, 0.7, 0.3)).astype(int)
X = rng.normal(size=(n, 6))
X[:, :2] += 1.2 * outcome[:, None]
X[:, 2:4] += 1.0 * group[:, None]

overall = FairPCA(2).fit(X, sensitive_features=group)
within = FairPCA(2).fit(X, sensitive_features=group, control_features=outcome)
ContrastsDisplay.from_estimator(within)


# %%
# A classifier of the outcome on top of each representation: how often it says yes to whom.
def rates(U):
    said = cross_val_predict(LogisticRegression(), U, outcome) == 1
    right = np.mean(said == outcome)
    return right, [[said[(group == g) & (outcome == o)].mean() for g in (0, 1)] for o in (0, 1)]


names = ("all features", "equal overall", "equal within strata")
tables = [rates(U) for U in (X, overall.transform(X), within.transform(X))]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
for ax, name, (right, table) in zip(axes, names, tables, strict=True):
    for g, (colour, hatch) in enumerate((("#0072b2", ""), ("#d55e00", "//"))):
        heights = [row[g] for row in table]
        places = np.arange(2) + 0.4 * g - 0.2
        ax.bar(
            places, heights, 0.38, color=colour, hatch=hatch, edgecolor="white", label=f"group {g}"
        )
    ax.set_xticks([0, 1], ["outcome no", "outcome yes"])
    ax.set_title(f"{name}\n{right:.0%} right", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share classified as yes")
axes[0].legend(frameon=False)
plt.show()
