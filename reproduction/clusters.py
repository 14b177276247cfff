"""Table 4, and the search for what its two columns are.

The paper says neither how many clusters there are nor what its score is relative to, and its
deviations are about half of what its words give. Every combination of the open choices is a
candidate; the printed values of all sets together say which one fits. The same candidates are held
against the printed rows of other sets, and are chosen on half of the sets and held against the
other half: both say how much of a fit is owed to the size of the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from sklearn.cluster import KMeans

from reproduction.datasets import UCI, definitions
from reproduction.methods import (
    PAPER_METHODS,
    PAPER_MU,
    Effort,
    Split,
    fit_bases,
    fit_split,
    make_split,
    measures,
    run_calmon,
)
from reproduction.results import DELTA, POINTS, UNREADABLE, printed
from reproduction.tables import Cache, Rows

READABLE = tuple(name for name in UCI if name not in UNREADABLE)
"""Sets whose labels are known; the others cannot tell one definition from another."""
SPLITS = 3
_ROUNDS = 5  # of the clustering into equal sizes


@dataclass(frozen=True)
class Setup:
    """How rows are clustered; the defaults are what fits the printed values."""

    components: int = 2
    scaled: bool = True  # components to unit variance
    centres: str = "test rows"  # rows whose k-means gives the centres
    equal: bool = False  # clusters of equal size, as in the authors' function
    k: int = 10


STATED = Setup(5, centres="training rows")
"""Five components and centres of the training rows, as the text says."""
SIMPLE = Setup(k=5, centres="training rows")
"""With distances as a share of the variance it gives nearly the same scores, but no deviations."""


def table4(dataset: str, definition: str, split: int, effort: Effort, cache: Cache) -> Rows:
    """Distance of test rows to their cluster's centre, and how uneven the clusters are."""
    rows: Rows = []
    where = {"dataset": dataset, "definition": definition, "split": split}
    part = make_split(dataset, split, definition)
    for d, setup in ((2, Setup()), (5, STATED)):
        for method, fit in cache(fit_split)(**where, d=d).items():
            train, test = part.train @ fit["basis"], part.test @ fit["basis"]
            values = _as_printed(cluster(setup, train, test, part.z_test, split))
            if d == 2:
                simple = cluster(SIMPLE, train, test, part.z_test, split)
                values |= {
                    "score_simple": simple["distance"] / simple["variance"],
                    "std_simple": simple["in cluster"],
                }
            rows += measures(values, **where, d=d, method=method)
    mapped = run_calmon(part, split)
    values = _as_printed(cluster(Setup(), mapped.train, mapped.test, part.z_test, split))
    return rows + measures(values, **where, d=3, method="calmon")


def _as_printed(values: dict[str, Any]) -> dict[str, float]:
    """Name what fits print, and the deviation in the words of the paper."""
    halved = values["by size"] / 2.0
    return {"score": values["distance"], "std": halved, "std_stated": values["in cluster"]}


def cluster(setup: Setup, train: Any, test: Any, z: Any, seed: int) -> dict[str, Any]:
    """Cluster rows, assign test rows to the nearest centre, and measure the clusters on them."""
    own = setup.centres == "test rows"
    if setup.scaled:
        train, test = _unit(train, train), _unit(test, test if own else train)
    rows = test if own else train
    # Preprocessed rows take few distinct values, and k-means needs as many as it has clusters.
    k = min(setup.k, len(np.unique(rows, axis=0)))
    centres = equal_centres(rows, k, seed) if setup.equal else _centres(rows, k, seed)
    squares = _squares(test, centres)
    counts = np.array([np.bincount(squares.argmin(axis=1)[z == g], minlength=k) for g in (0, 1)])
    variance = float(test.var(axis=0).sum())
    values = {"distance": float(squares.min(axis=1).mean()), "variance": variance or 1.0}
    return {**values, **unevenness(counts), "k": k}


def _unit(rows: Any, by: Any) -> Any:
    deviation = by.std(axis=0)
    return rows / np.where(deviation > 1e-12, deviation, 1.0)


def _centres(rows: Any, k: int, seed: int) -> Any:
    return KMeans(k, n_init=4, random_state=seed).fit(rows).cluster_centers_


def _squares(rows: Any, centres: Any) -> Any:
    return ((rows[:, None] - centres[None]) ** 2).sum(axis=2)


def equal_centres(rows: Any, k: int, seed: int) -> Any:
    """Cluster as the authors' function does: each row goes to the nearest centre with room left."""
    room = -(-len(rows) // k)
    centres = rows[np.random.default_rng(seed).choice(len(rows), k, replace=False)]
    for _ in range(_ROUNDS):
        size, labels = [0] * k, np.empty(len(rows), dtype=np.intp)
        for i, order in enumerate(_squares(rows, centres).argsort(axis=1).tolist()):
            labels[i] = next(c for c in order if size[c] < room)
            size[labels[i]] += 1
        full = [c for c in range(k) if size[c]]
        centres = np.array([rows[labels == c].mean(axis=0) for c in full])
        k = len(full)
    return centres


def unevenness(counts: Any) -> dict[str, Any]:
    """Deviations over clusters in points, by what is counted; rows of counts are the groups."""
    counts = counts[:, counts.sum(axis=0) > 0].astype(np.float64)
    size = counts.sum(axis=0)
    share, weight = counts[1] / size, size / size.sum()
    within = counts / counts.sum(axis=1, keepdims=True)
    around = share - weight @ share
    return {
        "in cluster": 100.0 * share.std(),
        "by size": 100.0 * float(np.sqrt(weight @ around**2)),
        "in class": 100.0 * within[1].std(),
        "between classes": 100.0 * (within[1] - within[0]).std(),
        "shares": 100.0 * share,
    }


DEFINITION_COLUMNS = (
    "dataset", "method", "components", "scaled", "centres", "equal", "k", "measure", "value",
)  # fmt: skip
CENTRES = ("test rows", "training rows")


def setups(quick: bool) -> list[Setup]:
    """All candidates: many k for two scaled components, few for the rest."""
    many = (5, 10) if quick else (2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 15, 20)
    few = (5, 10) if quick else (3, 5, 10, 20)
    return [
        Setup(components, scaled, centres, equal, k)
        for components, scaled, equal in (
            (2, True, False), (2, False, False), (5, True, False), (5, False, False),
            (2, True, True),
        )
        for centres in CENTRES
        for k in ((5, 10) if equal else many if (components, scaled) == (2, True) else few)
    ]  # fmt: skip


def search_cells(splits: int) -> list[dict[str, Any]]:
    """One cell for each set whose labels are known. It has splits of its own."""
    return [{"dataset": name} for name in READABLE]


def search(dataset: str, effort: Effort, cache: Cache) -> Rows:
    """Every measure of every candidate, averaged over the splits."""
    rows: Rows = []
    parts = list(_parts(dataset, 1 if effort.quick else SPLITS))
    for method, setup in product(PAPER_METHODS, setups(effort.quick)):
        measured = []
        for seed, (part, fits) in enumerate(parts):
            V = fits[setup.components][method]["basis"]
            values = cluster(setup, part.train @ V, part.test @ V, part.z_test, seed)
            measured.append(values)
        numbers = [name for name in measured[0] if name not in ("shares", "k")]
        values = {name: float(np.mean([m[name] for m in measured])) for name in numbers}
        values["averaged"] = averaged_first([m["shares"] for m in measured])
        rows += measures(values, dataset=dataset, method=method, **asdict(setup))
    return rows


def _parts(dataset: str, splits: int) -> Iterator[tuple[Split, dict[int, Any]]]:
    for split in range(splits):
        part = make_split(dataset, split, definitions(dataset)[-1])
        yield (
            part,
            {
                d: fit_bases(part.train, part.z_train, d, mu=PAPER_MU, methods=PAPER_METHODS)
                for d in (2, 5)
            },
        )


def averaged_first(shares: list[Any]) -> float:
    """Deviation of shares that are averaged over splits; clusters come in any order."""
    k = min(len(share) for share in shares)
    return float(np.mean([share[:k] for share in shares], axis=0).std())


SCORES = {"distance": "mean squared distance", "relative": "distance over total variance"}
STATISTICS = ("in cluster", "by size", "in class", "between classes", "averaged")
FACTORS = {"doubled": 2.0, "as it is": 1.0, "halved": 0.5, "standard error": 0.0}


@dataclass(frozen=True)
class Candidate:
    """A setup with a definition of the score and one of the deviation."""

    setup: Setup = Setup()
    score: str = "distance"
    statistic: str = "by size"
    factor: str = "halved"


@dataclass(frozen=True, eq=False)
class Fits:
    """How well candidates fit print: root mean square differences in units of the tolerances."""

    names: list[Candidate]
    scores: Any  # (candidates, sets, methods): differences allowed for are of size one
    deviations: Any
    wanted: tuple[Any, Any]

    @classmethod
    def read(cls, path: Path) -> Fits:
        """Build all candidates from the measures in a file."""
        frame = pandas.read_csv(path)
        sets = [name for name in UCI if name in set(frame["dataset"])]
        keys = [*Setup.__dataclass_fields__]
        names, scores, deviations = [], [], []
        for key, mine in frame.groupby(keys, sort=False):
            wide = mine.pivot(index=["dataset", "method"], columns="measure", values="value")
            wide = wide.loc[list(product(sets, PAPER_METHODS))]
            shape, setup = (len(sets), len(PAPER_METHODS)), Setup(*key)
            both = {"distance": wide["distance"], "relative": wide["distance"] / wide["variance"]}
            for score, statistic, factor in product(SCORES, STATISTICS, FACTORS):
                times = FACTORS[factor] or 1.0 / np.sqrt(setup.k - 1.0)
                names.append(Candidate(setup, score, statistic, factor))
                scores.append(both[score].to_numpy().reshape(shape) / DELTA)
                deviations.append(times * wide[statistic].to_numpy().reshape(shape) / POINTS)
        wanted = [
            np.array(
                [[printed("table4")[name, m, measure] for m in PAPER_METHODS] for name in sets]
            )
            for measure in ("score", "std")
        ]
        return cls(
            names,
            np.array(scores),
            np.array(deviations),
            (wanted[0] / DELTA, wanted[1] / POINTS),
        )

    @cached_property
    def sizes(self) -> tuple[Any, Any]:
        """Squared differences of scores and of deviations, (candidates, sets, methods)."""
        wanted = self.wanted
        return (self.scores - wanted[0]) ** 2, (self.deviations - wanted[1]) ** 2

    def fit(self, of: str = "both", sets: Any = slice(None)) -> Any:
        """Fit of every candidate to scores, deviations or both, over some of the sets."""
        parts = {"score": self.sizes[:1], "std": self.sizes[1:], "both": self.sizes}[of]
        return np.sqrt(np.mean([part[:, sets].mean(axis=(1, 2)) for part in parts], axis=0))

    def agreeing(self, place: int) -> tuple[int, int]:
        """Cells of a candidate within the tolerances: scores and deviations."""
        scores, deviations = (int((part[place] <= 1.0).sum()) for part in self.sizes)
        return scores, deviations

    def others(self) -> list[float]:
        """Best fit of any candidate after every set got the printed row of another one."""
        count = self.scores.shape[1]
        shifted = [
            replace(self, wanted=tuple(np.roll(w, shift, axis=0) for w in self.wanted))
            for shift in range(1, count)
        ]
        return [float(fits.fit().min()) for fits in shifted]

    def halves(self, tries: int = 200) -> tuple[list[int], list[float]]:
        """Choose on a random half of the sets: the choices, and their fit to the other half."""
        rng, count = np.random.default_rng(0), self.scores.shape[1]
        chosen, fits = [], []
        for _ in range(tries):
            order = rng.permutation(count)
            chosen.append(int(self.fit(sets=order[: count // 2]).argmin()))
            fits.append(float(self.fit(sets=order[count // 2 :])[chosen[-1]]))
        return chosen, fits
