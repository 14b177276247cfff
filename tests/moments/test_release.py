"""What may be written of few rows, against a count of rows."""

import numpy as np
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.moments._release import OTHER, release


def table(seed, wide):
    """Indicators of any share, one number, groups of any size in two strata, a few weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 90))
    rare = rng.choice([0.05, 0.3, 0.8, 0.97, 1.0], 4) if seed % 2 else (seed % 4) * 0.25 + 0.5
    X = (rng.random((n, 4)) < rare).astype(float)
    X = np.c_[X, rng.normal(size=n), np.tile(rng.normal(size=(n, 1)), 125 * wide)]
    few = 1 if seed % 2 else 10
    groups = rng.choice(list("abcdefghijkl"[: 2 + few]), n, p=[0.4, 0.35, *[0.25 / few] * few])
    weights = None if seed % 3 else rng.choice([0.5, 1.0, 2.0], n)
    return X, groups, rng.choice(["u", "v"], n), weights


def is_refused(moments, min_rows, **how):
    try:
        return release(moments, min_rows, **how)
    except InvalidInputError as error:
        return "cells have fewer" if "cells have fewer" in str(error) else "columns tell"


def size(inside, weights):
    """Rows of a cell, counted as its heaviest."""
    return inside.sum() if weights is None else weights[inside].sum() / weights[inside].max()


def by_count(X, cells, weights, min_rows):
    """What is refused."""
    verdict = None
    for cell in np.unique(cells):
        inside = cells == cell
        if size(inside, weights) < min_rows:
            return "cells have fewer"
        share = np.ones(len(X)) if weights is None else weights / weights[inside].max()
        share = share[inside]
        ones = share @ X[inside, :4]
        few = np.minimum(ones, share.sum() - ones)
        if ((few > 1e-9) & (few < min_rows - 1e-6)).any():
            verdict = "columns tell"
    return verdict if min_rows > 1 else None


@pytest.mark.parametrize(("wide", "tries"), [(False, range(16)), (True, [1])])
def test_cells_and_values_of_few_rows_are_refused(wide, tries):
    seen = set()
    for seed in tries:
        X, groups, strata, weights = table(seed, wide)
        cells = np.char.add(groups, strata)
        moments = GroupMoments.from_arrays(X, groups, strata, weights)
        assert (moments.span is not None) == wide
        for min_rows in (1, 2, 3, 6):
            found, expected = is_refused(moments, min_rows), by_count(X, cells, weights, min_rows)
            assert found is moments if expected is None else found == expected
            # Small groups of a stratum become one, which may be large enough.
            small = [cell for cell in np.unique(cells) if size(cells == cell, weights) < min_rows]
            merged = np.where(np.isin(cells, small), np.char.add(OTHER, strata), cells)
            found = is_refused(moments, min_rows, merge_small=True)
            expected = by_count(X, merged, weights, min_rows)
            if expected is None:
                assert found.n_samples == len(X)
                assert len(found.table.cells) == len(np.unique(merged))
                assert len(found.merged) == len(small)
            else:
                assert found == expected
            seen.add((expected, bool(small)))
    assert len(seen) >= (2 if wide else 5), seen
