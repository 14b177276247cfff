"""What a solver reaches on made problems, and in which steps: a change of either is noticed.

A bound stays valid and a basis feasible where a step, a start or a stopping rule is wrong. What is
lost then is variance, the sharpness of the bound, or time. Where steps were changed on purpose,
``python tests/solvers/test_effort.py`` prints the tables anew.
"""

from unittest.mock import patch

import numpy as np
import pytest
from support import random_problem

from fairpca.solvers import FairProblem, solve
from fairpca.solvers._lagrangian import Lagrangian
from fairpca.solvers._solution import Status, relative_gap

# Seed, features, components, contrasts, groups, whether means differ, and the constraints.
PROBLEMS = {
    "one contrast": (1, 8, 2, 1, 0, False, {"cov_weight": 2.0}),
    "five contrasts": (2, 10, 3, 5, 0, False, {"cov_weight": 1.0}),
    "a limit": (3, 9, 2, 2, 0, False, {"cov_tol": 0.1}),
    "equal means": (5, 10, 2, 3, 0, True, {"cov_weight": 1.0, "mean_tol": 0.0}),
    "bounded means": (6, 10, 3, 2, 0, True, {"cov_tol": 0.2, "mean_tol": 0.3}),
    "three groups": (8, 8, 2, 1, 3, False, {"cov_weight": 1.0}),
    "four groups and a limit": (9, 8, 2, 2, 4, False, {"cov_tol": 0.2}),
    "many features": (11, 60, 6, 4, 0, False, {"cov_weight": 1.0}),
    "many features and a limit": (12, 60, 6, 4, 0, True, {"cov_tol": 0.3, "mean_tol": 0.0}),
    "several optima": (13, 5, 3, 3, 0, False, {"cov_weight": 3.05}),
    "one component": (21, 7, 1, 1, 0, False, {"cov_weight": 2.0}),
    "one component of three contrasts": (23, 7, 1, 3, 0, False, {"cov_weight": 1.0}),
    "means alone": (25, 8, 2, 3, 0, True, {"cov_weight": 0.0, "mean_tol": 0.3}),
    "means and a penalty": (26, 7, 2, 2, 0, True, {"cov_weight": 1.0, "mean_tol": 0.3}),
    "a narrow limit": (27, 8, 2, 2, 0, False, {"cov_tol": 0.01}),
    "a wide limit": (28, 8, 3, 2, 0, False, {"cov_tol": 1.0}),
    "equal means and a limit": (29, 9, 2, 2, 0, True, {"cov_tol": 0.1, "mean_tol": 0.0}),
    "a small penalty": (30, 8, 3, 3, 0, False, {"cov_weight": 0.05}),
    "a large penalty": (31, 8, 3, 3, 0, False, {"cov_weight": 20.0}),
    "three groups alone": (33, 8, 3, 0, 3, False, {"cov_weight": 0.0}),
    "all but one": (37, 5, 4, 2, 0, False, {"cov_weight": 1.0}),
    "three features": (38, 3, 2, 1, 0, False, {"cov_tol": 0.2}),
    "many features and contrasts": (39, 40, 4, 6, 0, False, {"cov_tol": 0.5}),
    "many components": (41, 80, 12, 2, 0, False, {"cov_weight": 1.0}),
    "twelve features": (90, 12, 2, 2, 0, False, {"cov_weight": 1.0}),
    "sixteen features": (91, 16, 5, 2, 0, False, {"cov_weight": 1.0}),
    "groups of 25 features": (92, 25, 2, 0, 3, False, {"cov_weight": 0.0}),
    "many groups of many features": (51, 30, 3, 0, 3, False, {"cov_weight": 0.0}),
    "other groups of many features": (65, 30, 4, 0, 4, False, {"cov_weight": 0.0}),
    "many components of groups": (80, 40, 10, 0, 4, False, {"cov_weight": 0.0}),
    "groups and means": (54, 9, 2, 0, 3, True, {"cov_weight": 0.0, "mean_tol": 0.2}),
    "a large basis": (55, 40, 12, 1, 0, False, {"cov_weight": 1.0}),
    "a large basis and a limit": (56, 45, 10, 1, 0, False, {"cov_tol": 0.2}),
    "a large basis and means": (69, 50, 9, 1, 0, True, {"cov_tol": 0.3, "mean_tol": 0.3}),
    "as many as can be": (58, 75, 33, 1, 0, False, {"cov_weight": 1.0}),
    "many contrasts": (59, 20, 2, 6, 0, False, {"cov_weight": 1.0}),
    "many contrasts and a limit": (60, 16, 3, 8, 0, False, {"cov_tol": 0.3}),
    "many means": (61, 20, 3, 5, 0, True, {"cov_weight": 0.0, "mean_tol": 0.3}),
    "no gap": (62, 8, 2, 2, 0, False, {"cov_tol": 0.0}),
    "saddles": (71, 6, 2, 2, 0, False, {"cov_weight": 8.0}),
}
# Rounding of inputs leaves these as they are: objective, relative gap to the bound, iterations,
# snapshots, the mean logarithm of what was left at each of these, and evaluations of a Lagrangian
# and eigendecompositions together.
STEADY = {
    ("one contrast", "refined"): (9.0685423, 2.488e-08, 29, 15, -3.7087, 105),
    ("one contrast", "deflation"): (9.0655384, 0.0003313, 12, 13, -2.5083, 44),
    ("one contrast", "tight"): (9.068475, 1.522e-05, 10, 11, -1.6801, 8),
    ("one contrast", "paper"): (8.0980882, 0.1245, 55, 55, -1.9440, 114),
    ("five contrasts", "refined"): (8.0778927, 0.003961, 23, 17, -1.8715, 430),
    ("five contrasts", "deflation"): (7.7931176, 0.03908, 12, 13, -1.1205, 334),
    ("five contrasts", "tight"): (8.0256739, 0.01041, 11, 12, -1.2622, 16),
    ("five contrasts", "paper"): (7.9552511, 0.0651, 105, 105, -2.1468, 214),
    ("a limit", "refined"): (16.977977, 0.003758, 62, 22, -1.7006, 562),
    ("a limit", "tight"): (16.977977, 0.003768, 11, 12, -1.3212, 171),
    ("equal means", "refined"): (5.7037446, 0.009914, 29, 19, -1.6447, 396),
    ("equal means", "deflation"): (4.4172386, 0.2258, 11, 13, -0.5554, 312),
    ("equal means", "tight"): (5.6124184, 0.02578, 9, 10, -1.2286, 12),
    ("equal means", "paper"): (5.5240801, 0.1267, 40, 40, -1.8477, 84),
    ("many features", "refined"): (35.999446, 0.00222, 81, 56, -2.5059, 1211),
    ("many features", "tight"): (35.51741, 0.0156, 33, 37, -2.2741, 47),
    ("many features", "paper"): (35.351142, 0.02683, 90, 90, -2.2425, 184),
    ("many features and a limit", "deflation"): (33.160783, 0.08836, 38, 43, -1.0402, 651),
    ("many features and a limit", "tight"): (35.515838, 0.02366, 29, 33, -2.0317, 409),
    ("several optima", "refined"): (10.241682, 3.88e-05, 34, 15, -3.2084, 321),
    ("several optima", "deflation"): (9.9216011, 0.03129, 11, 12, -1.0185, 291),
    ("several optima", "tight"): (10.139803, 0.01, 9, 10, -0.9973, 12),
    ("several optima", "paper"): (9.9296442, 0.1215, 65, 65, -1.9150, 134),
    ("one component", "refined"): (3.732668, 2.063e-07, 8, 10, -3.8871, 40),
    ("one component", "deflation"): (3.732668, 2.063e-07, 8, 9, -3.9131, 29),
    ("one component", "tight"): (3.7326584, 5.73e-06, 7, 8, -2.1877, 8),
    ("one component", "paper"): (3.1959356, 0.4325, 30, 30, -1.6733, 64),
    ("one component of three contrasts", "refined"): (4.6103734, 0, 14, 4, -2.7044, 137),
    ("one component of three contrasts", "deflation"): (4.6103734, 6.289e-08, 11, 12, -3.6963, 80),
    ("one component of three contrasts", "tight"): (4.6103731, 7.326e-06, 9, 10, -1.7273, 12),
    ("one component of three contrasts", "paper"): (4.4787848, 0.1767, 50, 50, -1.8870, 104),
    ("means alone", "refined"): (7.5218882, 1.145e-14, 82, 8, -1.0799, 375),
    ("means alone", "tight"): (7.5218861, 2.947e-07, 14, 16, -1.3967, 9),
    ("means and a penalty", "refined"): (11.829461, 0, 85, 8, -1.4852, 678),
    ("means and a penalty", "tight"): (11.829452, 1.751e-05, 18, 20, -1.7179, 17),
    ("means and a penalty", "paper"): (11.733461, 0.03133, 160, 160, -1.8342, 375),
    ("a narrow limit", "refined"): (5.9542077, 0.003047, 78, 21, -1.8758, 538),
    ("a narrow limit", "deflation"): (5.8991844, 0.009966, 13, 15, -1.5469, 226),
    ("a narrow limit", "tight"): (5.9542077, 0.00305, 11, 12, -1.4627, 193),
    ("a wide limit", "refined"): (11.317431, 0, 18, 3, -2.7826, 182),
    ("a wide limit", "tight"): (11.317431, 3.393e-06, 7, 8, -2.7331, 79),
    ("equal means and a limit", "refined"): (8.7001972, 0.008197, 84, 29, -1.4093, 894),
    ("equal means and a limit", "deflation"): (8.5581082, 0.01633, 23, 26, -1.3401, 228),
    ("equal means and a limit", "tight"): (8.7001972, 0.01762, 20, 22, -1.1477, 214),
    ("a small penalty", "refined"): (12.707822, 9.785e-16, 21, 2, -4.0758, 165),
    ("a small penalty", "tight"): (12.707822, 3.779e-06, 8, 9, -2.8705, 12),
    ("a small penalty", "paper"): (12.70782, 1.921e-07, 20, 20, -3.1222, 44),
    ("a large penalty", "tight"): (-9.8271876, 2.45, 19, 21, 0.0140, 21),
    ("a large penalty", "paper"): (-0.64797591, 1.019, 190, 190, -2.2452, 384),
    ("three groups alone", "refined"): (5.3267982, 1.306e-08, 8, 9, -1.8694, 7),
    ("all but one", "refined"): (7.7786501, 0.01843, 28, 21, -1.4081, 677),
    ("all but one", "deflation"): (7.4881452, 0.05675, 10, 12, -1.0505, 416),
    ("all but one", "tight"): (7.6670528, 0.04406, 9, 10, -1.3219, 10),
    ("all but one", "paper"): (7.5329264, 0.07874, 65, 65, -2.2430, 134),
    ("three features", "refined"): (5.715335, 0.004621, 14, 14, -1.8458, 164),
    ("three features", "deflation"): (5.7018971, 0.006962, 8, 9, -1.7818, 29),
    ("three features", "tight"): (5.715335, 0.004628, 6, 7, -1.8067, 75),
    ("many features and contrasts", "refined"): (23.57785, 0.004346, 110, 71, -2.3709, 825),
    ("many features and contrasts", "tight"): (23.57785, 0.004374, 32, 36, -2.5255, 220),
    ("many components", "tight"): (63.76642, 0.007315, 36, 40, -2.5920, 26),
    ("many components", "paper"): (63.644196, 0.01262, 50, 50, -2.3994, 103),
    ("twelve features", "tight"): (8.9806915, 0.01295, 10, 11, -1.6240, 10),
    ("sixteen features", "tight"): (19.432596, 0.002969, 9, 10, -1.6467, 10),
    ("groups of 25 features", "refined"): (8.6095227, 1.698e-09, 12, 13, -2.5788, 7),
    ("many groups of many features", "refined"): (10.657214, 4.245e-08, 18, 21, -3.9177, 13),
    ("other groups of many features", "refined"): (13.25073, 2.399e-07, 23, 26, -3.5618, 13),
    ("many components of groups", "refined"): (28.984926, 1.874e-07, 23, 27, -3.8735, 16),
    ("groups and means", "refined"): (6.7889824, 6.295e-09, 8, 9, -2.1149, 7),
    ("a large basis", "refined"): (53.566218, 0.0001655, 41, 37, -3.4669, 133),
    ("a large basis and a limit", "refined"): (48.370201, 0.006298, 28, 25, -2.0511, 129),
    ("a large basis and a limit", "deflation"): (46.941207, 0.03569, 27, 30, -1.4066, 124),
    ("a large basis and means", "refined"): (45.233103, 0.001268, 58, 34, -2.4611, 362),
    ("as many as can be", "refined"): (107.16326, 0.008718, 66, 7, -1.8505, 202),
    ("as many as can be", "deflation"): (94.866907, 0.1374, 0, 1, -0.8620, 475),
    ("many contrasts", "refined"): (10.3131, 0.00847, 77, 59, -1.9492, 467),
    ("many contrasts", "deflation"): (9.8673593, 0.05132, 48, 53, -1.2653, 265),
    ("many contrasts", "tight"): (10.087545, 0.03019, 38, 42, -1.9858, 63),
    ("many contrasts and a limit", "deflation"): (14.460136, 0.06146, 190, 39, -1.1829, 913),
    ("many contrasts and a limit", "tight"): (14.460136, 0.06146, 45, 49, -1.6890, 446),
    ("many means", "refined"): (15.938242, 1.078e-13, 127, 8, -1.5101, 543),
    ("many means", "tight"): (15.938208, 2.188e-06, 45, 51, -2.2013, 21),
    ("no gap", "refined"): (8.2309441, 0.000512, 72, 22, -2.0863, 564),
    ("no gap", "deflation"): (8.1967242, 0.004667, 25, 27, -1.8632, 200),
    ("no gap", "tight"): (8.2309441, 0.0005152, 22, 24, -1.9600, 182),
    ("saddles", "tight"): (-3.3839593, 2.35, 8, 9, -0.3060, 10),
}
# Rounding changes the number of steps of these.
REACHED = {
    ("bounded means", "refined"): (8.5564066, 0.00983, 235, 40, -1.2281, 4484),
    ("bounded means", "tight"): (8.5564066, 0.03964, 17, 19, -1.0109, 3423),
    ("three groups", "refined"): (4.1390115, 5.64e-05, 424, 88, -3.0383, 1871),
    ("four groups and a limit", "refined"): (3.0982668, 0.02201, 474, 53, -1.2595, 1822),
    ("many features and a limit", "refined"): (35.515838, 0.02361, 176, 64, -1.6193, 1644),
}


def made(seed, p, d, n_contrasts, n_groups, has_means, constraints):
    """Covariances whose spectrum decays, and symmetric gaps of random entries."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p, p)) * np.linspace(2.0, 0.3, p)
    B = rng.normal(size=(n_contrasts, p, p))
    means = rng.normal(size=(n_contrasts, p)) if has_means else np.zeros((0, p))
    S, groups = A @ A.T / p, None
    if n_groups:
        G = rng.normal(size=(n_groups, p, p)) * rng.uniform(0.3, 2.0, size=(n_groups, 1, p))
        groups = G @ G.transpose(0, 2, 1) / p
        S = groups.mean(0)
    gaps = (B + B.transpose(0, 2, 1)) / 4.0
    return FairProblem(S, means, gaps, d, group_covariances=groups, **constraints)


def measured(problem, solver):
    """Objective, relative gap, iterations, snapshots, how fast they came close, and calls."""
    snapshots = []
    evaluate = patch.object(Lagrangian, "evaluate", autospec=True, side_effect=Lagrangian.evaluate)
    with evaluate as evaluated, patch.object(np.linalg, "eigh", wraps=np.linalg.eigh) as decomposed:
        solution = solve(made(*PROBLEMS[problem]), solver, callback=snapshots.append)
    found = solution.certificate
    ends = np.array([found.bound, found.objective])
    ways = np.array([(at.objective, at.bound) for at in snapshots]).reshape(-1, 2)
    left = np.abs(ways - ends)[np.isfinite(ways)] / np.abs(ends).max()
    pace = np.log10(np.maximum(left, 1e-6)).mean() if left.size else 0.0
    gap = relative_gap(found.bound, found.objective)
    calls = evaluated.call_count + decomposed.call_count
    return found.objective, gap, solution.n_iter, len(snapshots), pace, calls


@pytest.mark.parametrize(("problem", "solver"), STEADY)
def test_the_same_steps_lead_to_the_same_place(problem, solver):
    objective, gap, iterations, snapshots, pace, calls = measured(problem, solver)
    then = STEADY[problem, solver]
    assert objective == pytest.approx(then[0], rel=2e-6)
    assert gap == pytest.approx(then[1], rel=5e-3, abs=2e-6)
    assert iterations == pytest.approx(then[2], rel=0.01)
    assert snapshots == pytest.approx(then[3], rel=0.01)
    assert pace == pytest.approx(then[4], abs=5e-3)
    assert calls == pytest.approx(then[5], rel=0.01, abs=1)


@pytest.mark.parametrize(("problem", "solver"), REACHED)
def test_nothing_is_lost(problem, solver):
    objective, gap, iterations, snapshots, *_ = measured(problem, solver)
    then = REACHED[problem, solver]
    assert objective >= then[0] * (1.0 - 1e-4)
    assert gap <= 1.02 * then[1] + 1e-5
    assert iterations <= 1.2 * then[2] + 3
    assert snapshots <= 1.2 * then[3] + 3


def test_a_relaxation_that_still_gains_is_not_given_up():
    slow = made(7, 12, 3, 3, 0, True, {"cov_weight": 3.05, "mean_tol": 0.2})
    solution = solve(slow, "paper", tol=1e-5)
    assert solution.n_iter > 400
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize(("seed", "best"), [(6, 0.981757), (58, 1.139516)])
def test_ascents_from_other_starts_find_what_the_first_does_not(seed, best):
    problem = random_problem(seed, 5, 3, 3, cov_weight=3.05, mean_tol=None)
    assert solve(problem).certificate.objective >= best * (1.0 - 1e-5)


if __name__ == "__main__":
    for title, table in (("STEADY", STEADY), ("REACHED", REACHED)):
        print(f"{title} = {{")
        for case in table:
            objective, gap, iterations, snapshots, pace, calls = measured(*case)
            print(f'    ("{case[0]}", "{case[1]}"): ({objective:.8g}, {gap:.4g}, {iterations}, '
                  f"{snapshots}, {pace:.4f}, {calls}),")  # fmt: skip
        print("}")
