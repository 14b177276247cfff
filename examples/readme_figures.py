"""Draw the pictures of the README from the displays: python examples/readme_figures.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.datasets import load_diabetes_sex
from fairpca.report import BeforeAfterDisplay, TradeoffDisplay

OUT = Path(__file__).resolve().parents[1] / "docs" / "img"


def save(display, name):
    path = OUT / f"{name}.png"
    display.figure_.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(display.figure_)
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KB")


def main():
    diabetes = load_diabetes_sex()
    X = StandardScaler().fit_transform(diabetes.data)
    fair = FairPCA(2).fit(X, sensitive_features=diabetes.sensitive_features)
    groups = {"sensitive_features": diabetes.sensitive_features}
    save(BeforeAfterDisplay.from_estimator(fair, X, **groups), "plain_and_fair")
    penalties = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0)
    save(TradeoffDisplay.from_penalties(FairPCA(2), X, penalties=penalties, **groups), "tradeoff")


if __name__ == "__main__":
    main()
