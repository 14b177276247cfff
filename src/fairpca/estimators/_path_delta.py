"""Δ on held-out rows along a path of bases, which are fitted to halves of the rows."""

from __future__ import annotations

import numpy as np

from fairpca import adversary
from fairpca._choices import DELTA_FAMILIES
from fairpca.exceptions import GroupsError, InfeasibleError, SmallGroupWarning, warn_user
from fairpca.metrics._cross_fit import CLASSIFIERS, MIN_ROWS, HeldOutDelta, Labelled, cross_fit
from fairpca.moments import GroupMoments
from fairpca.rows import Rows

# Classifier of the registry that measures Δ for each family.
_CLASSIFIER = dict(zip(DELTA_FAMILIES, ("gaussian-widths", "logistic", "large-trees"), strict=True))
_TRAINED_ROWS = 1500  # rows that it is trained on; a kernel classifier costs their square
_SPLITS = 20  # how often rows are split anew where a half varies in too few directions


def held_out_deltas(
    rows, form_contrasts, n_components, mean_tol, path_targets, random, family, counter=None
):
    """Δ of every point of a path on held-out rows; the worst contrast counts.

    Bases and classifiers are fitted to one half of the rows and measured on the other, and the
    other way round.
    """
    _check_sizes(rows, form_contrasts)
    train = CLASSIFIERS[_CLASSIFIER[family]].trainer(int(random.integers(2**31)))
    halves, spaces = _split_rows(rows, form_contrasts, n_components, mean_tol, random)
    deltas: list[dict[str, list[HeldOutDelta]]] = [{} for _ in path_targets]
    for fitted, test, space in zip(halves, halves[::-1], spaces, strict=True):
        trained = _coordinates(fitted, space, form_contrasts, random)
        held_out = _coordinates(test, space, form_contrasts)
        path = adversary.fit_path(space, fitted, form_contrasts, path_targets, random, counter)
        known: dict[int, dict[str, HeldOutDelta]] = {}
        for point, values in zip(path, deltas, strict=True):
            key = id(point.basis)  # several targets may choose the same basis
            if key not in known:
                known[key] = _measure(point.basis, trained, held_out, train)
            for name, delta in known[key].items():
                values.setdefault(name, []).append(delta)
    averages = (map(HeldOutDelta.average, values.values()) for values in deltas)
    return [max(some, key=lambda delta: delta.value) for some in averages]


def _split_rows(rows, form_contrasts, n_components, mean_tol, random):
    """Return halves and their spaces; split anew while some feature is constant in a half."""
    for _ in range(_SPLITS):
        halves = [rows.take(half) for half in rows.halves(random)]
        try:
            spaces = []
            for half in halves:
                moments = GroupMoments.from_rows(half)
                contrasts = adversary.form_silently(form_contrasts, moments.coordinates())
                spaces.append(adversary.find_space(moments, contrasts, n_components, mean_tol))
            return halves, spaces
        except InfeasibleError as error:
            reason = error
    raise InfeasibleError(
        f"Δ is measured on halves of the rows, and for a half: {reason} Or set penalty instead of "
        "delta, which measures nothing.",
        parameter="n_components",
    ) from reason


def _check_sizes(rows, form_contrasts):
    """Refuse groups that cannot be halved, and say which contrasts are not measured."""
    targets = adversary.form_targets(rows, form_contrasts)[0].binary()
    sizes = {name: Labelled(rows, signs).smallest for name, (signs, _) in targets.items()}
    small = [name for name, size in sizes.items() if size < 2 * MIN_ROWS]
    measured = {name.split(":")[0] for name in sizes if name not in small}
    if measured != {name.split(":")[0] for name in sizes}:
        raise GroupsError(
            f"too few rows for {small[0]}: Δ on held-out rows needs at least {2 * MIN_ROWS} rows "
            "in each of two groups. Merge small groups, or set penalty instead of delta, which "
            "measures nothing.",
            parameter="sensitive_features",
        )
    if small:
        message = f"Not measured on held-out rows, since too small: {'; '.join(small[:20])}."
        warn_user(message, SmallGroupWarning)


def _coordinates(rows, space, form_contrasts, random=None):
    """Coordinates of rows and their targets by name; of a sample of them if `random` is given."""
    targets, order = adversary.form_targets(rows, form_contrasts)
    if random is not None:
        drawn = targets.draw(_TRAINED_ROWS, random)
        targets, order = targets.take(drawn), order[drawn]
    return space.coordinates(rows.X)[order], targets.binary()


def _measure(V, fitted, test, train):
    """Δ of a basis for every target that the rows to train on and the held-out rows have."""
    (X, trained), (X_new, held_out) = fitted, test
    U, U_new = X @ V, X_new @ V
    scale = U.std(axis=0)
    scale[scale == 0.0] = 1.0
    deltas = {}
    for name in (name for name in held_out if name in trained):
        halves = _labelled(U / scale, trained[name]), _labelled(U_new / scale, held_out[name])
        if min(half.smallest for half in halves) >= MIN_ROWS:
            [part] = cross_fit([halves], train)
            deltas[name] = part.delta()
    return deltas


def _labelled(U, target):
    signs, weights = target
    used = np.flatnonzero(signs)
    return Labelled(Rows(U[used], weights=weights[used]), signs[used])
