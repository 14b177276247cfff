"""The ways out: plain scikit-learn here; ONNX and skops with their extras (make test-sql)."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairpca
from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, FairPCACV, SparseFairPCA
from fairpca.estimators import to_onnx
from fairpca.exceptions import ImputedValuesWarning, InvalidInputError

rng = np.random.default_rng(5)
N = 300
GROUP = rng.choice(["f", "m"], N)
STRATUM = np.arange(N) % 2
X = rng.normal(size=(N, 5)) * [1.0, 3.0, 0.5, 1.0, 2.0] + 100.0
X[:, 0] += GROUP == "m"
MODELS = {
    "plain": FairPCA(2),
    "whiten": FairPCA(2, whiten=True),
    "standardize": FairPCA(2, standardize=True),
    "both": FairPCA(2, standardize=True, whiten=True),
    "delta": DeltaFairPCA(2, penalty=1.0),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def fair(request):
    return request.param.fit(X, sensitive_features=GROUP)


def test_plain_scikit_learn_transforms_alike(fair):
    plain = fair.to_sklearn()
    assert type(plain) is PCA
    assert "fairpca" not in repr({name: type(v).__module__ for name, v in vars(plain).items()})
    np.testing.assert_allclose(plain.transform(X), fair.transform(X), atol=1e-10)
    if not fair.standardize:
        scores = fair.transform(X)
        expected = fair.inverse_transform(scores)
        np.testing.assert_allclose(plain.inverse_transform(scores), expected, atol=1e-10)


def test_plain_scikit_learn_knows_names_and_components_without_variance():
    frame = pd.DataFrame(X[:, :3], columns=list("abc")).assign(zero=0.0)
    fair = FairPCA(3, whiten=True).fit(frame, sensitive_features=GROUP)
    plain = fair.to_sklearn()
    assert plain.feature_names_in_.tolist() == ["a", "b", "c", "zero"]
    np.testing.assert_allclose(plain.transform(frame), fair.transform(frame), atol=1e-8)


@pytest.mark.sql
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_onnx_computes_the_same(fair, dtype):
    rows = X.astype(dtype)
    assert_onnx(fair, rows, {"X": rows}, 1e-10 if dtype == np.float64 else 1e-6)


@pytest.mark.sql
def test_onnx_of_whole_numbers():
    whole = rng.integers(0, 50, (N, 5))
    fair = FairPCA(2).fit(whole, sensitive_features=GROUP)
    assert_onnx(fair, whole, {"X": whole}, 1e-10)


@pytest.mark.sql
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_onnx_of_a_pipeline_with_standardisation_and_one_hot():
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["job"] = rng.choice(["cook", "judge", "clerk"], N)
    encode = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), (OneHotEncoder(sparse_output=False), ["job"])
    )
    pipeline = make_pipeline(encode, FairPCA(2)).fit(frame, fairpca__sensitive_features=GROUP)
    feeds = {name: frame[[name]].to_numpy() for name in ("a", "b", "c")}
    feeds["job"] = frame[["job"]].to_numpy(dtype=object)
    assert_onnx(pipeline, frame, feeds, 1e-6)


@pytest.mark.sql
def test_onnx_inside_of_a_classifier():
    pipeline = make_pipeline(StandardScaler(), FairPCA(2), LogisticRegression())
    pipeline.fit(X, GROUP == "m", fairpca__sensitive_features=GROUP)
    session = open_session(to_onnx(pipeline, X, options={"zipmap": False}))
    found = session.run(None, {"X": X})[1]
    np.testing.assert_allclose(found, pipeline.predict_proba(X), atol=1e-6)


def assert_onnx(model, rows, feeds, tolerance):
    # In float64: the graph loses no digits, whatever it is fed with.
    exact = rows.astype(np.float64) if isinstance(rows, np.ndarray) else rows
    expected = model.transform(exact)
    found = open_session(to_onnx(model, rows)).run(None, feeds)[0]
    assert found.shape == expected.shape
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance, rtol=0)


def open_session(graph):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs fairpca[onnx]")
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def test_onnx_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'fairpca\[onnx\]'"):
        to_onnx(FairPCA(), X)


@pytest.mark.sql
@pytest.mark.parametrize("kind", [FairPCA, DeltaFairPCA, FairKernelPCA, FairPCACV, SparseFairPCA])
def test_skops_needs_no_more_trust_than_the_list(kind):
    skops = pytest.importorskip("skops.io", reason="needs fairpca[skops]")
    trusted = fairpca.SKOPS_TRUSTED
    asked = {DeltaFairPCA: {"penalty": 1.0}, FairPCA: {"target_weight": 1.0}}.get(kind, {})
    parts = {"sensitive_features": GROUP, "control_features": STRATUM}
    model = kind(2, **asked).fit(X, X[:, -1] > 100, **parts)
    content = skops.dumps(make_pipeline(StandardScaler(), model))
    assert set(skops.get_untrusted_types(data=content)) <= set(trusted)
    again = skops.loads(content, trusted=trusted)[-1]
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    if kind is FairPCA:
        both = again.partial_fit(X, X[:, -1] > 100, **parts)
        assert both.moments_.n_samples == 2 * N


def run_onnx(model, example, fed):
    runtime = pytest.importorskip("onnxruntime", reason="needs fairpca[onnx]")
    session = runtime.InferenceSession(to_onnx(model, example).SerializeToString())
    return session.run(None, fed)[0]


def test_the_types_to_trust_exist():
    for path in fairpca.SKOPS_TRUSTED:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name)


@pytest.mark.sql
@pytest.mark.parametrize("kind", [FairPCACV, SparseFairPCA])
def test_onnx_of_a_search_and_of_sparse_components(kind):
    model = kind(2).fit(X, sensitive_features=GROUP)
    np.testing.assert_allclose(run_onnx(model, X, {"X": X}), model.transform(X), atol=1e-9)


@pytest.mark.sql
@pytest.mark.parametrize("piped", [False, True])
def test_onnx_of_a_data_frame_takes_every_column(piped):
    frame = pd.DataFrame(X[:, :3] + 1e5, columns=list("abc")).assign(d=np.arange(N) % 7)
    model = make_pipeline(FairPCA(2)) if piped else FairPCA(2)
    step = {"fairpca__sensitive_features": GROUP} if piped else {"sensitive_features": GROUP}
    model.fit(frame, **step)
    fed = {name: frame[[name]].to_numpy() for name in frame}
    found = run_onnx(model, frame, fed)
    np.testing.assert_allclose(found, model.transform(frame), atol=1e-6)


@pytest.mark.sql
def test_onnx_of_a_table_with_groups_takes_the_features():
    frame = pd.DataFrame(X[:, :3], columns=list("abc")).assign(sex=GROUP)
    model = FairPCA(2).fit(frame, sensitive_features=["sex"])
    features = frame[list("cab")]  # in any order
    fed = {name: features[[name]].to_numpy() for name in features}
    found = run_onnx(model, features, fed)
    np.testing.assert_allclose(found, model.transform(frame[list("abc")]), atol=1e-9)
    with pytest.raises(InvalidInputError, match="those of the fit a, b, c"):
        to_onnx(model, frame[["a", "b"]])


@pytest.mark.sql
def test_onnx_fills_means_where_the_model_does():
    holes = X.copy()
    holes[::7, 1] = np.nan
    with pytest.warns(ImputedValuesWarning):
        model = FairPCA(2, missing="mean").fit(holes, sensitive_features=GROUP)
    np.testing.assert_allclose(
        run_onnx(model, holes, {"X": holes}), model.transform(holes), atol=1e-9
    )


@pytest.mark.sql
def test_onnx_of_a_model_that_is_not_fitted():
    with pytest.raises(NotFittedError):
        to_onnx(FairPCA(2), X)


@pytest.mark.parametrize("container", [np.asarray, csr_array])
@pytest.mark.parametrize("whiten", [False, True])
def test_single_precision_keeps_its_digits_at_a_large_mean(container, whiten):
    rows = rng.normal(np.array([1e5, 0.0, 3.0, 0.0, -7.0]), size=(N, 5)).astype(np.float32)
    model = FairPCA(2, whiten=whiten).fit(rows, sensitive_features=GROUP)
    found = model.transform(container(rows))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, model.transform(rows.astype(np.float64)), atol=1e-5)
