"""Search for the protected label that the paper evidently used: which column, cut where.

Every column is cut at many thresholds and taken for the protected label, the class of the file
for a label or for a feature, with all rows or a fifth of them. Candidates are screened by the two
variances that cost next to nothing, then by linear Δ and the variance of the paper's SDP, and the
best few are measured in full. The same candidates are held against the printed rows of the other
fourteen sets: how well the best of them fits a row that cannot be theirs says how surprising a
match is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.metrics import delta_fairness
from reproduction.datasets import UCI, load_dataset
from reproduction.methods import (
    PAPER_METHODS,
    PAPER_MU,
    ROWS,
    Effort,
    Split,
    choose_rows,
    cut,
    fit_bases,
    gaussian_released,
    ks_released,
    measures,
    representation,
    score_delta,
    standardise,
)
from reproduction.results import printed
from reproduction.tables import Cache, Rows, plain_svm, score_measures

COLUMNS = ("dataset", "printed", "rank", "candidate", "tried", "measure", "value")
SEARCHED = (
    "biodeg",
    "ecoli",
    "image_segmentation",
    "letter_recognition",
    "magic",
    "pima_diabetes",
    "recidivism",
    "skillcraft",
    "statlog_landsat",
    "steel_plates",
)
"""Sets whose released file does not give all of table 1, or whose label is a coin flip."""
FEW_VALUES = 20
"""A column with no more values than this is cut between all of them, others at twentieths."""
PAIRS_UP_TO = 10
"""With no more features than this a second column may be left out, as a label."""
FEW_ROWS = 10
"""A group smaller than this, in training or test rows, is no candidate."""


@dataclass(frozen=True)
class Candidate:
    """A way to read a file: protected means `column` above `threshold`."""

    column: str
    threshold: float
    left_out: tuple[str, ...]  # columns that are no features, the protected one among them
    rows: str

    def __str__(self) -> str:
        without = " and ".join(name for name in self.left_out if name != self.column)
        parts = [f"{self.column} > {self.threshold:.4g}", f"without {without}" if without else ""]
        return ", ".join(part for part in (*parts, self.rows) if part)


@dataclass(frozen=True, eq=False)
class _Part:
    """One split of some of the rows, with all columns."""

    raw_train: NDArray[np.float64]
    raw_test: NDArray[np.float64]

    @cached_property
    def scaled(self) -> tuple[NDArray[np.float64], ...]:
        return standardise(self.raw_train, self.raw_test)

    @cached_property
    def covariance(self) -> NDArray[np.float64]:
        return self.scaled[0].T @ self.scaled[0] / len(self.raw_train)

    def smallest_group(self, column: int, threshold: float) -> int:
        """Rows of the smaller group in the smaller part."""
        above = [rows[:, column] > threshold for rows in (self.raw_train, self.raw_test)]
        return min(min(part.sum(), (~part).sum()) for part in above)

    def gap(self, column: int, threshold: float) -> NDArray[np.float64]:
        """Difference of the group means in all columns."""
        above = self.raw_train[:, column] > threshold
        return np.where(above, 1.0 / above.sum(), -1.0 / (~above).sum()) @ self.scaled[0]


class Reader:
    """A file with all its columns, and what each candidate gives of table 1."""

    def __init__(self, name: str, splits: int) -> None:
        data = load_dataset(name)
        self.features = data.feature_names
        self.labels = list(data.sensitive_features.columns)
        if data.target_name != "DummyMain":  # a coin flip
            self.labels.append(data.target_name)
        self.columns = [*self.features, *self.labels]
        values = data.frame[self.columns].to_numpy(np.float64)
        self.rows = {rows: values[choose_rows(len(values), rows)] for rows in ROWS}
        self.parts = {
            rows: [_Part(*(chosen[part] for part in cut(len(chosen), i))) for i in range(splits)]
            for rows, chosen in self.rows.items()
        }
        self.candidates: list[Candidate] = []
        self.cheap: list[Any] = []
        for rows in ROWS:
            self._add_candidates(rows)
        self._linear: dict[int, list[float]] = {}
        self._both: dict[int, list[float]] = {}

    def _add_candidates(self, rows: str) -> None:
        for place, column in enumerate(self.columns):
            for threshold in thresholds(self.rows[rows][:, place]):
                parts = self.parts[rows]
                if min(part.smallest_group(place, threshold) for part in parts) < FEW_ROWS:
                    continue
                gaps = [part.gap(place, threshold) for part in parts]
                for out in self._left_out(column):
                    candidate = Candidate(column, threshold, (column, *out), rows)
                    self.candidates.append(candidate)
                    self.cheap.append(self._variances(candidate, gaps))

    def _left_out(self, column: str) -> list[tuple[str, ...]]:
        labels = [name for name in self.labels if name != column]
        sets = [out for size in range(len(labels) + 1) for out in combinations(labels, size)]
        if len(self.features) <= PAIRS_UP_TO:
            others = [name for name in self.features if name != column]
            sets += [(*out, name) for out in sets for name in others]
        return sets

    def _variances(self, candidate: Candidate, gaps: list[Any]) -> Any:
        """Variance of PCA and with equal means, in percent."""
        shares = []
        keep, _ = self._places(candidate)
        for part, gap in zip(self.parts[candidate.rows], gaps, strict=True):
            covariance = part.covariance[np.ix_(keep, keep)]
            values = [np.linalg.eigvalsh(c) for c in (covariance, _without(covariance, gap[keep]))]
            shares.append([100.0 * v[-2:].sum() / np.trace(covariance) for v in values])
        return np.mean(shares, axis=0)

    def _places(self, candidate: Candidate) -> tuple[list[int], int]:
        keep = [i for i, name in enumerate(self.columns) if name not in candidate.left_out]
        return keep, self.columns.index(candidate.column)

    def splits(self, candidate: Candidate) -> Iterator[Split]:
        """Rows of a candidate; the label is the first one of the file that is left out."""
        keep, z = self._places(candidate)
        labels = [name for name in candidate.left_out[1:] if name in self.labels]
        y = self.columns.index(labels[0]) if labels else None
        for part in self.parts[candidate.rows]:
            raw = (part.raw_train, part.raw_test)
            above = [(rows[:, z] > candidate.threshold).astype(np.intp) for rows in raw]
            known = [None if y is None else (rows[:, y] > 0).astype(np.intp) for rows in raw]
            train, test = (rows[:, keep] for rows in part.scaled)
            yield Split(train, test, *above, *known)

    def linear(self, i: int) -> list[float]:
        """Δ of the best linear score by second moments, for PCA and with equal means."""
        if i not in self._linear:
            candidate, deltas = self.candidates[i], []
            keep, z = self._places(candidate)
            for part in self.parts[candidate.rows]:
                covariance = part.covariance[np.ix_(keep, keep)]
                fair = _without(covariance, part.gap(z, candidate.threshold)[keep])
                planes = [np.linalg.eigh(c)[1][:, -2:] for c in (covariance, fair)]
                test, above = part.scaled[1][:, keep], part.raw_test[:, z] > candidate.threshold
                deltas.append([_discriminant_delta(test @ V, above.astype(int)) for V in planes])
            self._linear[i] = list(np.mean(deltas, axis=0))
        return self._linear[i]

    def both(self, i: int) -> list[float]:
        """Variance and linear Δ of the paper's SDP."""
        if i not in self._both:
            values = []
            for split in self.splits(self.candidates[i]):
                fit = fit_bases(split.train, split.z_train, 2, mu=PAPER_MU, methods=("both",))
                U = split.test @ fit["both"]["basis"]
                values.append([fit["both"]["variance"], _discriminant_delta(U, split.z_test)])
            self._both[i] = list(np.mean(values, axis=0))
        return self._both[i]

    def best(self, row: str, rows: str, shortlist: int, finalists: int) -> list[tuple[float, int]]:
        """Candidates nearest to a printed row of table 1, by its six cells without kernel."""
        mine = [i for i, candidate in enumerate(self.candidates) if candidate.rows == rows]
        first = _nearest(row, {i: self.cheap[i] for i in mine}, shortlist)
        second = _nearest(
            row, {i: np.r_[self.cheap[i], self.linear(i)] for _, i in first}, finalists
        )
        third = {i: np.r_[self.cheap[i], self.linear(i), self.both(i)] for _, i in second}
        return _nearest(row, third, finalists)


SCREEN = (
    ("pca", "variance", 2.0),
    ("mean", "variance", 2.0),
    ("pca", "linear", 0.05),
    ("mean", "linear", 0.05),
    ("both", "variance", 3.0),
    ("both", "linear", 0.05),
)
"""Cells that the screening looks at, with their tolerances; the cheap ones first."""


def _nearest(row: str, cells: Mapping[int, Any], count: int) -> list[tuple[float, int]]:
    """Smallest root mean square differences from print, in units of the tolerances."""
    want = np.array([printed("table1")[row, method, measure] for method, measure, _ in SCREEN])
    scale = np.array([tolerance for *_, tolerance in SCREEN])
    scores = [
        (float(np.sqrt(np.mean(((v - want[: len(v)]) / scale[: len(v)]) ** 2))), i)
        for i, v in cells.items()
    ]
    return sorted(scores)[:count]


def thresholds(values: Any) -> list[float]:
    """Cuts of a column that leave at least a twentieth on either side."""
    distinct = np.unique(values)
    if len(distinct) > FEW_VALUES:
        distinct = np.unique(np.quantile(values, np.linspace(0.05, 0.95, 19), method="lower"))
    shares = np.array([(values > value).mean() for value in distinct])
    return [float(value) for value in distinct[(shares >= 0.05) & (shares <= 0.95)]]


def _without(covariance: Any, gap: Any) -> Any:
    """Covariance in the complement of a direction."""
    unit = gap / np.linalg.norm(gap)
    left = covariance - np.outer(unit, unit @ covariance)
    return left - np.outer(left @ unit, unit)


def _discriminant_delta(U: Any, z: Any) -> float:
    """Δ of Fisher's discriminant: close to that of a linear SVM, and at once."""
    gap = U[z == 1].mean(axis=0) - U[z == 0].mean(axis=0)
    return score_delta(U @ np.linalg.lstsq(np.cov(U.T), gap, rcond=None)[0], z)


def full_cells(split: Split, seed: int, effort: Effort) -> dict[str, float]:
    """Measure a split as tables 1, 3 and 5 do, with two components, for the paper's methods."""
    values: dict[str, float] = {}
    bases = fit_bases(split.train, split.z_train, 2, mu=PAPER_MU, methods=PAPER_METHODS)
    few = slice(effort.kernel_rows)  # as table 1
    for method, fit in bases.items():
        U = representation(split.test, fit["basis"])
        values[f"table1 {method} variance"] = fit["variance"]
        values[f"table1 {method} linear"] = float(delta_fairness(U, split.z_test))
        values[f"table1 {method} gaussian"] = gaussian_released(U[few], split.z_test[few], seed)
        values[f"table3 {method} ks"] = float(np.mean(ks_released(U, split.z_test)))
        if _two_classes(split.y_train) and _two_classes(split.y_test):
            train = representation(split.train, fit["basis"])
            svm = plain_svm(train, split.y_train, seed, effort.folds)
            score = svm.decision_function(U)
            for name, value in score_measures(score, split.y_test, split.z_test).items():
                values[f"table5 {method} {name}"] = value
    return values


def _two_classes(y: Any) -> bool:
    """Whether there is a label to learn; the first rows of a sorted file have one class."""
    return y is not None and min(np.sum(y == 0), np.sum(y == 1)) >= FEW_ROWS


def compare(dataset: str, measured: list[dict[str, float]]) -> tuple[dict[str, float], float, int]:
    """Means over splits, their distance from print, and how many of them agree."""
    cells, terms, agreeing = {}, [], 0
    for name in (name for name in measured[0] if all(name in split for split in measured)):
        table, method, measure = name.split()
        tolerance = 0.05 if measure != "variance" else 3.0 if method == "both" else 2.0
        values = [split[name] for split in measured]
        cells[name] = float(np.mean(values))
        difference = cells[name] - printed(table)[dataset, method, measure]
        terms.append(difference / tolerance)
        spread = 2.0 * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        agreeing += abs(difference) <= max(tolerance, spread) + 0.005
    return cells, float(np.sqrt(np.mean(np.square(terms)))), agreeing


def cells(splits: int) -> list[dict[str, Any]]:
    """One cell for each file; of all cells these take longest. It has splits of its own."""
    return [{"dataset": name} for name in SEARCHED]


def search(dataset: str, effort: Effort, cache: Cache) -> Rows:
    """Best candidates of a file for its own printed row, and the best one for every other row."""
    reader = Reader(dataset, 1 if effort.quick else 2)
    where = {"dataset": dataset, "tried": len(reader.candidates)}
    ranked = []
    for score, i in _finalists(reader, dataset, *((30, 2, 1) if effort.quick else (60, 4, 3))):
        splits = enumerate(reader.splits(reader.candidates[i]))
        measured = [full_cells(split, seed, effort) for seed, split in splits]
        values, overall, agreeing = compare(dataset, measured)
        counts = {"score": score, "overall": overall, "agreeing": agreeing, "cells": len(values)}
        ranked.append((overall, str(reader.candidates[i]), {**counts, **values}))
    rows: Rows = []
    for rank, (_, name, values) in enumerate(sorted(ranked, key=lambda r: r[0]), start=1):
        rows += measures(values, **where, printed=dataset, rank=rank, candidate=name)
    for other in () if effort.quick else UCI:
        if other != dataset:
            score, i = _finalists(reader, other, 60, 4, 1)[0]
            candidate = str(reader.candidates[i])
            at = {**where, "printed": other, "rank": 1, "candidate": candidate}
            rows += measures({"score": score}, **at)
    return rows


def _finalists(reader: Reader, row: str, shortlist: int, wide: int, few: int) -> Any:
    """Return the best few of every choice of rows, best first; a fifth of the rows is noisier."""
    return sorted(pair for rows in ROWS for pair in reader.best(row, rows, shortlist, wide)[:few])
