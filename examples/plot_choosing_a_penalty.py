"""
Choosing a penalty from a plot
==============================

``cov_weight`` is the variance given up for a unit of covariance gap. It has no natural scale, so
compare the variance and the gaps that each penalty gives on held-out rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairpca import FairPCA
from fairpca.report import TradeoffDisplay

rng = np.random.default_rng(0)
group = rng.integers(0, 2, 3000)
scales = np.array([3.0, 2.6, 2.2, 1.8, 1.5, 1.3, 1.1, 1.0, 0.9, 0.8])
spread = 1.0 + np.outer(group, [0.9, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0, 0.0])
X = rng.normal(size=(3000, 10)) * scales * spread
X += np.outer(group, [1.0, 0, 0, 1.0, 0, 0, 0, 0, 0, 0])

# %%
# Each point is a fit to 60 % of the rows, measured on the others. The short lines are bounds: with
# gaps as small, no components keep more. Penalties at which the curve is steep are too high; those
# at which it is flat cost nothing.
penalties = (0.0, 0.3, 0.6, 1.0, 1.5, 2.5, 5.0)
TradeoffDisplay.from_penalties(FairPCA(3), X, sensitive_features=group, penalties=penalties)

# %%
# The same penalties, measured by a linear and a Gaussian-kernel classifier.
figure, axes = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
for ax, measure in zip(axes, ("linear", "rbf"), strict=True):
    TradeoffDisplay.from_penalties(
        FairPCA(3),
        X[::3],
        sensitive_features=group[::3],
        penalties=penalties[::2],
        measure=measure,
        ax=ax,
    )
