"""
Fair clusters of activity
=========================

The paper's last experiment clusters people by how active they are over a day, and finds that
clusters of plain components are clusters of age. This is the same story on made data: profiles of
days in 20-minute steps, where the old rise earlier and the young are up later, besides habits
that have nothing to do with age.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.metrics import cluster_parity_std

rng = np.random.default_rng(0)
n, hours = 1500, np.arange(72) / 3.0
old = rng.random(n) < 0.5
morning = np.exp(-0.5 * ((hours - np.where(old, 7.5, 9.5)[:, None]) / 1.8) ** 2)
evening = np.exp(-0.5 * ((hours - np.where(old, 18.0, 20.5)[:, None]) / 2.2) ** 2)
habit = rng.integers(0, 3, n)  # walks at noon, sport after work, or neither
noon = 1.0 * (habit == 0)[:, None] * np.exp(-0.5 * ((hours - 12.5) / 1.2) ** 2)
sport = 1.2 * (habit == 1)[:, None] * np.exp(-0.5 * ((hours - 16.0) / 0.9) ** 2)
level = rng.gamma(8.0, 1 / 8.0, n)[:, None]
X = 300 * level * (0.1 + morning + evening + noon + sport) + rng.normal(size=(n, 72)) * 25


# %%
# Three clusters of five components each. In every panel a line is the mean day of a cluster.
def draw(ax, title, U):
    labels = KMeans(3, n_init=5, random_state=0).fit_predict(U)
    for cluster, (colour, line) in enumerate(
        (("#0072b2", "-"), ("#d55e00", "--"), ("#009e73", ":"))
    ):
        mine = labels == cluster
        label = f"{mine.sum()} people, {100 * old[mine].mean():.0f} % old"
        ax.plot(hours, X[mine].mean(axis=0), color=colour, linestyle=line, linewidth=2, label=label)
    spread = cluster_parity_std(labels, old)
    ax.set_title(f"{title}: shares differ by {spread:.0f} points", loc="left")
    ax.set_xlabel("hour")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)


fair = FairPCA(5).fit(X, sensitive_features=old)
figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
draw(axes[0], "Plain PCA", PCA(5).fit_transform(X))
draw(axes[1], "FairPCA", fair.transform(X))
axes[0].set_ylabel("activity")
plt.show()
