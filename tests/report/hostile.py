"""Names that would like to be obeyed, and a small page that is full of them."""

import numpy as np
import pandas as pd

from fairpca import FairPCA
from fairpca.report import audit_report

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "{{7*7}}{% raw %}",
    "\x1b[31mred\x1b[0m",
    "</style><style>*{display:none}",
    "$\\frac{1}{0$ [x](javascript:alert(3)) | pipe",
)


def hostile_page():
    """Return the page of an audit in which every name comes from somebody who means harm."""
    rng = np.random.default_rng(0)
    n = 240
    groups = pd.DataFrame(
        {HOSTILE[0]: rng.choice(HOSTILE[1:3], n), HOSTILE[1]: rng.choice(HOSTILE[3:6], n)}
    )
    X = rng.normal(size=(n, 5))
    X[:, 0] += groups[HOSTILE[0]] == HOSTILE[1]
    # As hostile as the names of the attributes, but not the same: those would be warned of.
    frame = pd.DataFrame(X, columns=[*(f"{name} " for name in HOSTILE[:4]), "plain"])
    return audit_report(
        frame,
        groups,
        model=FairPCA(2, mean_tol=0.5),
        families=("linear",),
        adversaries=("linear", "trees"),
        effort="quick",
        decisions={"decision": rng.random(n) < 0.5, "label": rng.random(n) < 0.5},
        folds=3,
        name=HOSTILE[2],
        title=HOSTILE[0],
        about={"options": {HOSTILE[1]: HOSTILE[0]}, "files": [{"name": HOSTILE[1], "sha256": "0"}]},
    )
