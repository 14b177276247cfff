"""The same rows in another process, with another hash seed, time zone, locale and folder.

`run(tries, seed)` returns failures by class. A child process makes all tries and pickles its
models; here they are made again and compared, and the models are loaded.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzzing import campaign, same
from test_fuzz_equivalences import figures, fit, make_model, make_rows

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import decision_rates, delta_fairness
from fairpca.tables import moments_from_files

ZONES = ("Pacific/Kiritimati", "America/St_Johns", "Asia/Kolkata")
DAYS = ("2020-03-29 02:30:00", "2021-12-31 23:59:59", "1969-12-31 12:00:00")


def make_table(rng, X, z):
    """Numbers, text and groups: dates of several time zones, words, whole numbers, truth values."""
    days = pd.to_datetime([DAYS[k] for k in z]).tz_localize(
        rng.choice(["UTC", None, "Europe/Berlin"]), nonexistent="shift_forward"
    )
    kinds = (days, np.array(["x", "ä", "M"])[z], np.array([3, 1, 2])[z], z > 0)
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    table["city"] = rng.choice(["north", "süd", "ost", "West"], len(X))
    return table.assign(g=kinds[int(rng.integers(4))], stratum=rng.choice(["u", "v"], len(X)))


def from_file(table):
    """Figures and words of moments and of a fit from a file; the text of a refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        table.to_parquet(path)
        try:
            moments = moments_from_files(path, ["g"], control="stratum", categorical="city")
            fair = FairPCA(1, cov_weight=1.0).fit_moments(moments)
        except InvalidInputError as error:
            return [str(error).replace(folder, "")], []
    words = [*moments.feature_names, *moments.contrasts().labels, *map(str, moments.levels("g"))]
    numbers = [*moments.pooled().covariance.ravel(), fair.certificate_.objective]
    return [*words, repr(moments), repr(fair)], numbers


def answers(rng):
    """What a user reads and computes, and the model."""
    X, z, weights = make_rows(rng)
    model, table = make_model(rng, X.shape[1]), make_table(rng, X, z)
    words, numbers = from_file(table)
    delta = delta_fairness(X[:, :2], table["g"], compare="pairs", n_permutations=9)
    rates = decision_rates((X[:, 0] > 0).astype(int), table["g"], control_features=table["stratum"])
    words += [repr(delta), repr(rates)]
    try:
        model = fit(model, X, z, weights)
    except InvalidInputError as error:
        return [*words, str(error)], np.array(numbers), None
    return words, np.concatenate([numbers, *map(np.ravel, figures(model, X))]), (model, X)


def child(tries, seed, folder):
    """Make all tries in a process with other surroundings; return what it pickled."""
    where = {
        "PYTHONHASHSEED": str(seed % 4_000_000_000 + 1),
        "TZ": ZONES[seed % len(ZONES)],
        "LC_ALL": "C",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    path = Path(folder, "answers")
    command = [sys.executable, __file__, str(tries), str(seed), str(path)]
    subprocess.run(command, env=os.environ | where, cwd=folder, check=True, timeout=1200)
    return pickle.loads(path.read_bytes())


def compare(mine, theirs):
    words, numbers, model = mine
    assert not isinstance(theirs, str), f"only in another process: {theirs}"
    assert words == theirs[0], "other words in another process"
    same(theirs[1], numbers, "other numbers in another process", 1e-9)
    assert (model is None) == (theirs[2] is None), "refused in one process only"
    if model is not None:
        loaded, X = theirs[2]
        same(loaded.transform(X), np.asarray(model[0].transform(X)), "pickled elsewhere", 1e-9)


def run(tries, seed):
    with tempfile.TemporaryDirectory() as folder:
        theirs = iter(child(tries, seed, folder))

    def attempt(rng):
        other = next(theirs)
        compare(answers(rng), other)

    return campaign(attempt, tries, seed, calls=3)


@pytest.mark.parametrize(("tries", "seed"), [(2, 1), pytest.param(100, 2, marks=pytest.mark.slow)])
def test_processes(tries, seed):
    assert run(tries, seed) == {}


def main(tries, seed, path):
    found = []
    for number in range(tries):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(answers(np.random.default_rng([seed, number])))
        except Exception as error:  # which the process that compares says
            found.append(f"{type(error).__name__}: {error}")
    Path(path).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
