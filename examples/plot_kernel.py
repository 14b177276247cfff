"""
Fair components of a kernel
===========================

Kernel PCA finds structure that is not linear. ``FairKernelPCA`` does it with components on which
the groups have equal means and nearly equal covariances in the feature space of the kernel.
"""

import numpy as np

from fairpca import FairKernelPCA
from fairpca.report import BeforeAfterDisplay, ContrastsDisplay

rng = np.random.default_rng(0)
n = 600
group = np.where(rng.random(n) < 0.5, "a", "b")
arc = rng.uniform(0, np.pi, n) + 0.5 * (group == "b")  # one group lies further along the arc
ring = rng.integers(0, 2, n)  # structure that has nothing to do with the group
radius = 1.0 + 1.2 * ring + 0.1 * rng.normal(size=n)
X = np.column_stack([radius * np.cos(arc), radius * np.sin(arc)]) + 0.08 * rng.normal(size=(n, 2))

fair = FairKernelPCA(2, gamma=1.0, rank=60).fit(X, sensitive_features=group)
print(fair.certificate_)
BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=group)

# %%
# The two rings, which plain components show, are still there in the fair ones.
BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=np.where(ring, "outer", "inner"))

# %%
# Gaps in the space of the kernel.
ContrastsDisplay.from_estimator(fair)
