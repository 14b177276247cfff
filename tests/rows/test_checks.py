"""Matrices, weights and parts of rows: what is refused wherever it stands, and what goes along."""

import numpy as np
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.rows import Rows
from fairpca.rows._checks import rows_at_once


@pytest.mark.parametrize(("bad", "says"), [(np.nan, "'x2047' 1"), (np.inf, "'x2047'")])
def test_the_last_row_is_looked_at_too(bad, says):
    X = np.zeros((2 * rows_at_once(2048) + 1, 2048), dtype=np.float32)
    X[-1, -1] = bad
    with pytest.raises(InvalidInputError, match=says):
        Rows.read(X, np.arange(len(X)) % 2)


def test_all_parts_of_a_row_go_along():
    X = np.arange(8.0)[:, None]
    rows = Rows.read(X, list("abababab"), list("xxyyxxyy"), np.arange(1.0, 9.0))
    some = rows.take(np.array([5, 2, 7]))
    assert some.X[:, 0].tolist() == [5.0, 2.0, 7.0]
    assert some.weights.tolist() == [6.0, 3.0, 8.0]
    assert some.groups.categorical[0].codes.tolist() == [1, 0, 1]
    assert some.strata.categorical[0].codes.tolist() == [0, 1, 1]
    assert some.groups.n_rows == 3
