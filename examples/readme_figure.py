"""Draw docs/img/plain_and_fair.png: plain and fair components of the embedded diabetes data.

Run from the root of the repository: python examples/readme_figure.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.datasets import load_diabetes_sex

OUT = Path(__file__).resolve().parents[1] / "docs" / "img" / "plain_and_fair.png"
# Told apart by colour-blind readers, and where the ellipses coincide.
STYLES = {"sex 1": ("#0072b2", "-", 9), "sex 2": ("#d55e00", "--", 5)}


def draw_group(ax, U, label):
    """Draw the rows of a group, and its mean and covariance (two standard deviations)."""
    colour, line, size = STYLES[label]
    ax.scatter(*U.T, s=9, color=colour, alpha=0.35, linewidths=0)
    mean, covariance = U.mean(axis=0), np.cov(U.T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 4 * np.sqrt(values[::-1])
    style = {"fill": False, "edgecolor": colour, "linewidth": 2, "linestyle": line}
    ax.add_patch(Ellipse(mean, width, height, angle=angle, **style))
    ax.plot(*mean, "o", markersize=size, color=colour, markeredgecolor="white", label=label)


def draw_panel(ax, title, fitted, X, sex):
    U = fitted.transform(X)
    for label in STYLES:
        draw_group(ax, U[sex == label], label)
    kept = 100 * fitted.explained_variance_ratio_.sum()
    figures = f"variance kept {kept:.0f} %, mean gap {fitted.mean_gap_:.2f}, "
    ax.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=22)
    ax.text(0, 1.03, figures + f"covariance gap {fitted.cov_gap_:.2f}", transform=ax.transAxes)
    ax.set(xlabel="component 1", ylabel="component 2", aspect="equal", xlim=(-6.5, 6.5))
    ax.set_ylim(-4.5, 4.5)
    ax.spines[["top", "right"]].set_visible(False)


def main():
    data = load_diabetes_sex()
    X = StandardScaler().fit_transform(data.X)
    plain = FairPCA(2, mean_tol=None, cov_weight=0.0)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    for ax, title, estimator in (
        (axes[0], "Plain PCA", plain),
        (axes[1], "Fair PCA", FairPCA(2)),
    ):
        fitted = estimator.fit(X, sensitive_features=data.sensitive)
        draw_panel(ax, title, fitted, X, data.sensitive)
    axes[0].legend(frameon=False, loc="upper left")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT, dpi=110, metadata={"Software": None})
    print(f"{OUT.name}: {OUT.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
