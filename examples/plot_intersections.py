"""
Intersections
=============

A representation can be fair to women and fair to a minority, and still single out the women of
that minority. Here that is built in: opposite shifts in opposite corners cancel in every margin.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fairpca import FairPCA
from fairpca.metrics import mean_gap
from fairpca.report import BeforeAfterDisplay, ContrastsDisplay

rng = np.random.default_rng(3)
sex, race = rng.integers(0, 2, (2, 3000))
X = rng.normal(size=(3000, 6)) * [1.6, 1.4, 1.2, 1.1, 1.0, 0.9]
X[:, 0] += 2.5 * np.where(sex == race, 1.0, -1.0)
groups = pd.DataFrame({"sex": np.where(sex, "f", "m"), "race": np.where(race, "a", "b")})

# %%
# Fair to each attribute: the four intersections still lie apart.
pairwise = FairPCA(2).fit(X, sensitive_features=groups)
cells = groups.agg(" × ".join, axis=1)
BeforeAfterDisplay.from_estimator(pairwise, X, sensitive_features=groups)

# %%
# ``joint=True`` compares every intersection with everybody else.
joint = FairPCA(2, joint=True).fit(X, sensitive_features=groups)
for name, model in (("each attribute", pairwise), ("joint", joint)):
    kept = 100 * model.explained_variance_ratio_.sum()
    gap = mean_gap(model.transform(X), cells)
    print(f"{name}: {kept:.0f} % of the variance, mean gap of the intersections {gap:.2f}")
BeforeAfterDisplay.from_estimator(joint, X, sensitive_features=groups)

# %%
# Every contrast that was compared, in the features and in the components.
ContrastsDisplay.from_estimator(joint)
plt.show()
