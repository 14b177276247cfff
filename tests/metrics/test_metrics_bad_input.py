"""delta_fairness: one clear error for what cannot be measured."""

import numpy as np
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.metrics import delta_fairness


class TestBadInput:
    U = np.arange(12.0).reshape(6, 2)
    z = np.array([0, 0, 0, 1, 1, 1])

    @pytest.mark.parametrize(
        ("U", "z", "message"),
        [
            (U, np.zeros(6, dtype=int), "one group only"),
            (U, np.array([0, 0, 0, 0, 0, 1]), "has one row"),
            (U, z[:5], "5 rows but U has 6"),
            (np.empty((6, 0)), z, "at least one column"),
            (np.empty((0, 2)), z[:0], "U has no rows"),
            (
                np.where(U == 3, np.nan, U),
                z,
                r"1 of 6 rows have missing values \(by column: 'x1' 1",
            ),
            (np.where(U > 8, np.inf, U), z, "column 'x0' holds infinite values"),
            (U.astype(str) + "x", z, r"features that are not numbers: 'x0' \(text\), 'x1'"),
            (U + 1j, z, "complex"),
            (U[None], z, r"U has shape \(1, 6, 2\)"),
            (U, np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), "bin it first"),
            (U, None, "is None"),
            (np.zeros((4000, 1)), np.arange(4000) // 2, "more than 1000"),
        ],
    )
    def test_messages(self, U, z, message):
        with pytest.raises(InvalidInputError, match=message):
            delta_fairness(U, z)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"family": "quadratic"}, "family must be one of"),
            ({"family": "cdf", "method": "svm"}, "knows the methods"),
            ({"family": "rbf", "method": "exact"}, "knows the methods"),
            ({"orthants": "some"}, "orthants must be"),
            ({"n_permutations": -1}, "n_permutations must be a whole number of at least 0"),
            ({"n_permutations": 2.5}, "n_permutations must be a whole number"),
            ({"n_permutations": None}, "n_permutations must be a whole number"),
            ({"random_state": -1}, "random_state must be a whole number from 0 to"),
            ({"random_state": 2**32}, "random_state must be a whole number from 0 to"),
            ({"random_state": 10**400}, "random_state must be a whole number from 0 to"),
            ({"random_state": np.random.default_rng(0)}, "random_state must be a whole number"),
            ({"family": "rbf", "C": 0.0}, "C must be a positive number"),
            ({"family": "rbf", "C": "a"}, "C must be a positive number"),
            ({"family": "rbf", "C": np.inf}, "C must be a positive number"),
            ({"family": "rbf", "gamma": np.nan}, "gamma must be a positive number"),
            ({"family": "rbf", "gamma": -1.0}, "gamma must be a positive number"),
            ({"family": "rbf", "max_samples": 3}, "max_samples must be a whole number of at least"),
            ({"sample_weight": np.ones(5)}, "give one weight for each row"),
            ({"sample_weight": -np.ones(6)}, "negative values: weights must be >= 0"),
            ({"sample_weight": ["a"] * 6}, "sample_weight cannot be read as numbers"),
            ({"sample_weight": np.zeros(6)}, "sample_weight is zero for every row:"),
            ({"sample_weight": [1, 1, 0, 0, 0, 0]}, "one group only.*sample_weight is zero"),
            ({"cross_fit": True}, "at least 4 rows in each group"),
            ({"control_features": np.linspace(0, 1, 6)}, "bin the values"),
        ],
    )
    def test_messages_of_options(self, options, message):
        with pytest.raises(InvalidInputError, match=message):
            delta_fairness(self.U, self.z, **options)

    def test_exact_methods_name_the_alternative_in_higher_dimensions(self):
        U = np.random.default_rng(0).normal(size=(20, 4))
        z = np.arange(20) % 2
        with pytest.raises(InvalidInputError, match=r"at most 2 components.*method='search'"):
            delta_fairness(U, z, method="exact")
        with pytest.raises(InvalidInputError, match=r"at most 3 components.*method='search'"):
            delta_fairness(U, z, family="cdf", method="exact")
        with pytest.raises(InvalidInputError, match="orthants='all'"):
            delta_fairness(np.zeros((20, 13)), z, family="cdf", orthants="all")

    def test_a_rare_group_stays_in_the_sample(self):
        z = np.zeros(500, dtype=int)
        z[:3] = 1
        options = {"family": "rbf", "C": 10.0, "gamma": 1.0, "max_samples": 10}
        assert delta_fairness(np.arange(500.0), z, **options).value > 0.5
