"""Everything that a notebook shows, made of hostile names."""

import numpy as np
import pandas as pd

from fairpca import Certificate, FairPCA
from fairpca.metrics import audit, decision_rates, delta_fairness

HOSTILE = ("<script>hit()</script>", '"><img src=x onerror=hit()>', "{{7*7}}", "\x1b[31mred")


def hostile_rows(n=120):
    rng = np.random.default_rng(0)
    # As hostile as the names of the attributes, but not the same: those would be warned of.
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=[f"{name} " for name in HOSTILE])
    groups = pd.DataFrame({name: [HOSTILE[i % 2] for i in range(n)] for name in HOSTILE[:1]})
    strata = pd.DataFrame({HOSTILE[1]: [HOSTILE[i // 2 % 2] for i in range(n)]})
    return X, groups, strata


def views():
    """Every object that a notebook shows, made of hostile names."""
    X, groups, strata = hostile_rows()
    fair = FairPCA(2).fit(X, sensitive_features=groups, control_features=strata)
    U = fair.transform(X)
    few = {"n_permutations": 9, "random_state": 0}
    return {
        "certificate": Certificate(9.9, 10.0, 0.0, 0.1, 10.0, 0.0, HOSTILE[0], True, True),
        "delta": delta_fairness(U, groups, control_features=strata, cross_fit=True, **few),
        "audit": audit(
            U, groups, control_features=strata, families=("linear",), adversaries=("linear",),
            effort="quick",
        ),
        "decisions": decision_rates(
            np.arange(len(X)) % 3 > 0, groups, control_features=strata, min_group=10
        ),
        "moments": fair.moments_,
        "contrasts": fair.moments_.contrasts(),
        "contrasts_": fair.contrasts_,
        "FairPCA": fair,
    }  # fmt: skip
