"""What both sides of a rule must do: either group, either branch, any limit of rows."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from scipy.stats import chi2, t
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import FairScorer, explained_variance
from fairpca.metrics._cross_fit import Classifier, Labelled
from fairpca.metrics._svm import KernelStatistic
from fairpca.moments._new_data import hotelling
from fairpca.rows import Rows
from fairpca.tables import input_kind, open_table
from fairpca.tables._roles import Columns, suggested_units


@pytest.fixture
def rng():
    return np.random.default_rng(17)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_quantile_of_hotelling_between_students_and_that_of_many_rows(confidence):
    for freedom in (1.0, 2.5, 30.0):
        student = t.isf((1.0 - confidence) / 2.0, freedom) ** 2
        assert hotelling(1, freedom, confidence) == pytest.approx(student)
    for rank in range(6):
        values = [hotelling(rank, freedom, confidence) for freedom in (0.0, 1.0, 5.0, 9.0, 1e9)]
        assert not np.isnan(values).any()
        assert (np.diff([v for v in values if np.isfinite(v)]) <= 0.0).all()
        # As many rows as directions are needed for a bound; without directions nothing is.
        assert [np.isfinite(v) for v in values] == [f >= rank for f in (0.0, 1.0, 5.0, 9.0, 1e9)]
        assert values[-1] == pytest.approx(chi2.ppf(confidence, rank) if rank else 0.0, rel=1e-6)


@pytest.mark.parametrize("few", [1, -1])
def test_a_sample_without_rows_of_either_group_trains_no_kernel_machine(rng, few):
    signs = np.tile([few, -few, -few, 0], 20).astype(np.int8)
    U = rng.normal(size=(80, 2)) + signs[:, None]
    for trained in (np.arange(20), np.arange(1, 20)):  # five rows of the group
        assert KernelStatistic(U, None, 1.0, None, trained, 0).fit(signs).value > 0.0
    trained = np.flatnonzero(np.arange(80) > 4 * 18 * (signs == few))  # and one
    with pytest.raises(InvalidInputError, match="holds 1 rows of a group: raise max_samples"):
        KernelStatistic(U, None, 1.0, None, trained, 0).fit(signs)


def test_a_classifier_is_trained_on_all_rows_or_on_as_many_of_both_groups(rng):
    part = Labelled(
        Rows(rng.normal(size=(300, 1))), np.repeat([1, -1, 0], [40, 200, 60]).astype(np.int8)
    )
    trained = []
    for entry, limits in (
        (Classifier(lambda part, _: trained.append(part)), ()),
        (Classifier(lambda part, _: trained.append(part)), (30,)),
        (Classifier(lambda part, _: trained.append(part), max_rows=30), ()),
        (Classifier(lambda part, _: trained.append(part), max_rows=30), (50,)),
    ):
        entry.trainer(0, *limits)(part)
    counts = [[int((part.signs == sign).sum()) for sign in (1, -1, 0)] for part in trained]
    assert counts == [[40, 200, 60], *[[15, 15, 0]] * 3]


def test_a_score_takes_components_for_what_they_keep(rng):
    # Fair components are no principal axes: a regression on their scores explains more.
    X = rng.normal(size=(120, 5)) @ rng.normal(size=(5, 5))
    z = np.arange(120) % 2
    X[:, :2] += 3.0 * z[:, None]
    scorer = FairScorer(1.0, 0.0)
    for fair in (FairPCA(2), FairPCA(2, whiten=True)):
        fair.fit(X, sensitive_features=z)
        kept = fair.explained_variance_ratio_.sum()
        assert kept < explained_variance(X, U=fair.transform(X)) - 0.01
        assert scorer(fair, X) == pytest.approx(kept)
        centred = make_pipeline(StandardScaler(with_std=False).fit(X), fair)
        for model in (make_pipeline(fair), make_pipeline(centred), make_pipeline(*centred)):
            assert scorer(model, X + 0.0) == pytest.approx(kept)
    square = make_pipeline(PCA(5), PCA(2)).fit(X)
    assert scorer(square, X) == pytest.approx(PCA(2).fit(X).explained_variance_ratio_.sum())


def test_only_what_dask_can_split_is_a_collection_of_dask():
    class Lazy:
        """Has the graph of Dask, as labelled arrays have, and rows in memory."""

        __dask_graph__ = __array__ = None

    class Split(Lazy):
        to_delayed = None

    assert [input_kind(kind()) for kind in (Lazy, Split)] == ["memory", "dask"]


def test_slices_of_columns_make_up_the_whole(rng):
    names = {"features": ["x", "y"], "sensitive": ["g"], "weight": "w"}
    batch = pa.record_batch({name: rng.normal(size=23) for name in "xygw"})
    roles = open_table(pa.table({name: batch[name] for name in "xygw"})).assign(**names)
    for matrix in (None, csr_array(rng.normal(size=(23, 2)))):
        whole = replace(Columns.of(batch, roles), matrix=matrix)
        for size in (1, 5, 22, 23, 40):
            parts = [whole.slice(start, size) for start in range(0, 46, size)]
            assert [part.n_rows for part in parts] == [len(part.weight["w"]) for part in parts]
            assert sum(part.n_rows for part in parts) == 23
            found = np.concatenate([part.features["y"].to_numpy() for part in parts])
            np.testing.assert_array_equal(found, whole.features["y"].to_numpy())
            if matrix is not None:
                assert [part.matrix.shape[0] for part in parts] == [part.n_rows for part in parts]
        used = rng.random(23) < 0.5
        assert whole.filter(used).n_rows == used.sum()


def test_columns_that_may_name_persons_are_found_by_values_and_by_name(rng):
    n = 160
    person, patient = np.arange(n) // 4, rng.integers(0, 40, n)
    table = open_table(
        pa.table(
            {
                "x": rng.integers(0, 40, n),
                "code": person,
                "patient": patient,
                "half": rng.normal(size=n),
                "sex": np.array(["f", "m"])[person % 2],
                "race": np.array(["a", "b", "c"])[person % 3],
            }
        )
    )
    names = ["x", "code", "patient"]
    for groups, found in ((["sex"], 2), (["sex", "race"], 2), (["half"], 1)):
        roles = table.assign(groups, ["x"], numeric=["half"] if found == 1 else None)
        expected = [("code", 40, n), ("patient", len(np.unique(patient)), n)]
        assert list(suggested_units(table, roles, names)) == expected[-found:]
