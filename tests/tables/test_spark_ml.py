"""The stage for Spark ML pipelines, on a classic session and on Spark Connect (make test-spark)."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from table_support import FEATURES, people

import fairpca
from fairpca.estimators import load_model
from fairpca.exceptions import FairnessWarning, GroupsError, InvalidInputError

pyspark = pytest.importorskip(
    "pyspark", reason="pyspark is not installed: pip install 'fairpca[spark]'"
)
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # pyspark uses what Python and pandas have deprecated
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ,
        reason="Spark needs Java 17 or 21, and there is no java here",
    ),
]
ASKED = {"sensitiveCol": "sex", "nComponents": 2}
# In a process of its own: a process has either a classic session or one of Spark Connect.
CONNECT = os.environ.get("FAIRPCA_SPARK_CONNECT")


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("fairpca-tests")
    builder = builder.remote("local[2]") if CONNECT else builder.master("local[2]")
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame():
    return people(400, mean=5.0)


@pytest.fixture(scope="module")
def data(spark, frame):
    return spark.createDataFrame(frame).repartition(3)


def assembled(data):
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    return data.withColumn("x", array_to_vector(F.array(*FEATURES)))


def scores_of(table, frame, name="fairpca"):
    from pyspark.ml.functions import vector_to_array

    rows = table.select("age", vector_to_array(name).alias("u")).toPandas().sort_values("age")
    return np.stack(rows["u"].to_numpy())


def expected(frame, **options):
    model = fairpca.FairPCA(2, **options)
    return model.fit(
        frame[FEATURES],
        sensitive_features=frame["sex"],
        control_features=frame["city"],
        sample_weight=frame["w"],
    )


@pytest.mark.parametrize("options", [{}, {"whiten": True, "standardize": True}])
@pytest.mark.parametrize("vector", [False, True])
def test_the_model_is_that_of_the_rows_in_memory(spark, data, frame, vector, options):
    from fairpca.spark import FairPCA

    parts = {"inputCol": "x"} if vector else {"inputCols": FEATURES}
    given = assembled(data) if vector else data
    stage = FairPCA(**ASKED, **parts, **options, controlCols=["city"], weightCol="w", outputCol="u")
    model = stage.fit(given)
    fair = expected(frame, **options)
    np.testing.assert_allclose(model.fitted.components_, fair.components_, atol=1e-8)
    found = model.transform(given)
    assert found.columns == [*given.columns, "u"]
    want = fair.transform(frame.sort_values("age")[FEATURES])
    np.testing.assert_allclose(scores_of(found, frame, "u"), want, atol=1e-7)


def test_missing_values_missing_groups_and_a_share(spark, frame):
    from fairpca.spark import FairPCA

    holes = frame.astype({"sex": object})
    holes["b"] = holes["b"].mask(holes.index % 7 == 0)
    holes["sex"] = holes["sex"].where(holes.index % 11 > 0, None)
    data = spark.createDataFrame(holes).repartition(3)
    with pytest.raises(InvalidInputError, match="missing_groups='own'"):
        FairPCA(**ASKED, inputCols=["a", "c"]).fit(data)
    ordered = holes.sort_values("age")[FEATURES]
    for missing in ("mean", "drop-rows"):
        asked = {"missing": missing, "standardize": True}
        stage = FairPCA(sensitiveCol="sex", inputCols=FEATURES, **asked)
        stage.setParams(nComponents=0.6, missingGroups="own", covWeight=0.0)
        model = stage.fit(data)
        fair = fairpca.FairPCA(0.6, missing_groups="own", cov_weight=0.0, **asked)
        fair.fit(holes[FEATURES], sensitive_features=holes["sex"])
        assert fair.n_components_ > 1
        np.testing.assert_allclose(model.fitted.components_, fair.components_, atol=1e-8)
        found = scores_of(model.transform(data), frame)
        np.testing.assert_allclose(found, fair.transform(ordered), atol=1e-7)
        infinite = data.withColumn("b", data["b"] * float("inf"))
        with pytest.raises(InvalidInputError, match="missing or infinite values"):
            model.transform(infinite)
    with pytest.raises(ValueError, match="'missing' parameter of FairPCA"):
        FairPCA(**ASKED, inputCols=FEATURES, missing="x").fit(data)


def test_files_without_pickle(spark, data, frame, tmp_path):
    from fairpca.spark import FairPCA, FairPCAModel

    stage = FairPCA(**ASKED, inputCols=FEATURES, covTol=0.5, whiten=True)
    place = f"{tmp_path}/stage"
    stage.write().overwrite().save(place)
    again = FairPCA.load(place)
    assert again.settings() == stage.settings()
    assert again.getInputCols() == FEATURES
    model = again.fit(data)
    for _ in range(2):
        model.write().overwrite().save(f"{tmp_path}/model")
    with pytest.raises(Exception, match=r"ALREADY_EXISTS|already exists"):
        model.save(f"{tmp_path}/model")
    loaded = FairPCAModel.load(f"{tmp_path}/model")
    assert (loaded.uid, loaded.getOutputCol()) == (model.uid, "fairpca")
    want = scores_of(model.transform(data), frame)
    np.testing.assert_array_equal(scores_of(loaded.transform(data), frame), want)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(b"\x80\x04\x95" in path.read_bytes() for path in files)  # how a pickle begins
    local = load_model(model.fitted.save(tmp_path / "local"))
    np.testing.assert_allclose(local.transform(frame.sort_values("age")[FEATURES]), want, atol=1e-8)


def test_in_a_pipeline(spark, data, frame, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel

    from fairpca.spark import FairPCA, FairPCAModel

    one = FairPCA(**ASKED, inputCols=FEATURES, outputCol="u")
    two = FairPCA(sensitiveCol="city", inputCol="u", nComponents=1, outputCol="v")
    pipeline = Pipeline(stages=[one, two])
    model = pipeline.fit(data)
    found = scores_of(model.transform(data), frame, "v")
    assert found.shape == (400, 1)
    assert isinstance(model.stages[1], FairPCAModel)
    for _ in range(2):
        model.write().overwrite().save(f"{tmp_path}/pipeline")
    again = PipelineModel.load(f"{tmp_path}/pipeline")
    np.testing.assert_array_equal(scores_of(again.transform(data), frame, "v"), found)
    pipeline.write().overwrite().save(f"{tmp_path}/unfitted")
    fitted = Pipeline.load(f"{tmp_path}/unfitted").fit(data)
    np.testing.assert_allclose(scores_of(fitted.transform(data), frame, "v"), found, atol=1e-9)


def test_cross_validation(spark, data, frame):
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    from fairpca.spark import FairnessEvaluator, FairPCA

    stage = FairPCA(**ASKED, inputCols=FEATURES, covWeight=0.0)
    grid = ParamGridBuilder().addGrid(stage.nComponents, [1, 2]).build()
    evaluator = FairnessEvaluator(sensitiveCol="sex", gapPenalty=0.1)
    found = CrossValidator(
        estimator=stage, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=1
    ).fit(data)
    assert found.bestModel.fitted.components_.shape == (2, 4)
    assert found.bestModel.getOrDefault("nComponents") == 2
    assert found.bestModel.getOrDefault("covWeight") == 0.0
    assert found.bestModel.getOrDefault("solver") == "refined"  # not set
    assert found.avgMetrics[1] > found.avgMetrics[0] > 0.0
    scored = found.bestModel.transform(data)
    scores = fairpca.FairPCA(2, cov_weight=0.0).fit_transform(
        frame[FEATURES], sensitive_features=frame["sex"]
    )
    for metric, value in (
        ("variance", scores.var(axis=0).sum()),
        ("meanGap", fairpca.metrics.mean_gap(scores, frame["sex"])),
        ("covGap", fairpca.metrics.cov_gap(scores, frame["sex"])),
    ):
        one = FairnessEvaluator(sensitiveCol="sex", metricName=metric)
        assert one.isLargerBetter() == (metric == "variance")
        assert one.evaluate(scored) == pytest.approx(value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("vector", [False, True])
def test_missing_values_are_named_without_a_java_trace(spark, data, frame, value, vector):
    from fairpca.spark import FairPCA

    if vector and value is None:
        pytest.skip("a vector holds no null")
    given = assembled(data) if vector else data
    parts = {"inputCol": "x"} if vector else {"inputCols": FEATURES}
    model = FairPCA(**ASKED, **parts).fit(given)
    holes = frame.copy()
    holes["b"] = holes["b"].astype(object).where(holes.index != 7, value)
    schema = ", ".join(f"{name} double" for name in FEATURES)
    bad = spark.createDataFrame(holes[FEATURES].astype(object).values.tolist(), schema)
    bad = assembled(bad) if vector else bad
    name = "x[1]" if vector else "b"
    with pytest.raises(InvalidInputError, match=re.escape(f"(by column: {name!r} 1)")):
        model.transform(bad)
    lazy = model.copy({model.handleInvalid: "lazy"}).transform(bad)
    with pytest.raises(Exception, match="fairpca: column") as error:
        lazy.collect()
    said = str(error.value).splitlines()[0]
    assert f"fairpca: column '{name}' has missing or infinite values" in said
    assert "Py4JJavaError" not in type(error.value).__name__
    if not CONNECT:  # which shows the trace of the server below, unless told otherwise
        assert "\tat " not in str(error.value)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
def test_groups_that_are_too_small_are_refused_as_by_the_estimator(spark, data, frame):
    from fairpca.spark import FairPCA

    options = {"objective": "worst-loss", "cov_weight": 0.0, "min_group_size": 10_000}
    with pytest.raises(GroupsError) as here:
        fairpca.FairPCA(2, **options).fit(frame[FEATURES], sensitive_features=frame["sex"])
    stage = FairPCA(**ASKED, inputCols=FEATURES, objective="worst-loss", covWeight=0.0)
    with pytest.raises(GroupsError) as there:
        stage.setParams(minGroupSize=10_000).fit(data)
    assert str(there.value) == str(here.value)


def test_a_feature_equal_to_the_group_is_warned_of(spark, frame):
    from fairpca.spark import FairPCA

    copied = frame.assign(copy=(frame["sex"] == "m").astype(float))
    names = [*FEATURES, "copy"]
    data = spark.createDataFrame(copied)
    with pytest.warns(FairnessWarning, match="copy") as here:
        fairpca.FairPCA(2).fit(copied[names], sensitive_features=copied["sex"])
    with pytest.warns(FairnessWarning, match="copy") as there:
        FairPCA(**ASKED, inputCols=names).fit(data)
    assert str(here[0].message) in {str(warning.message) for warning in there}


def test_mistakes(spark, data):
    from fairpca.spark import FairnessEvaluator, FairPCA

    with pytest.raises(InvalidInputError, match="has no parameter 'ncomponents'"):
        FairPCA(ncomponents=2)
    with pytest.raises(InvalidInputError, match="name the protected column with sensitiveCol"):
        FairPCA(inputCols=FEATURES).fit(data)
    with pytest.raises(InvalidInputError, match="name the features with inputCols"):
        FairPCA(sensitiveCol="sex").fit(data)
    with pytest.raises(InvalidInputError, match="has no column 'zzz'"):
        FairPCA(sensitiveCol="sex", inputCols=["zzz"]).fit(data)
    with pytest.raises(InvalidInputError, match="column 'city' is string: encode it"):
        FairPCA(sensitiveCol="sex", inputCols=["a", "city"]).fit(data)
    with pytest.raises(InvalidInputError, match="metricName='x': use one of"):
        FairnessEvaluator(sensitiveCol="sex", inputCol="x", metricName="x").evaluate(data)


def test_vectors_of_another_length(spark, data):
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    from fairpca.spark import FairPCA

    short = data.limit(5).withColumn("x", array_to_vector(F.array("a", "b")))
    mixed = assembled(data.limit(50)).unionByName(short)
    with pytest.raises(InvalidInputError, match=r"5 of 55 rows have missing values"):
        FairPCA(**ASKED, inputCol="x").fit(mixed.coalesce(1))


@pytest.mark.skipif(CONNECT is not None, reason="this is the process that it starts")
def test_all_of_this_on_spark_connect():
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "--disable-warnings",
        "-m",
        "spark",
    ]
    command.append(__file__)
    env = {**os.environ, "FAIRPCA_SPARK_CONNECT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=400)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-1000:]


@pytest.mark.skipif(CONNECT is not None, reason="the command starts a session of its own")
@pytest.mark.parametrize("quiet", [True, False])
def test_the_command_is_silent_when_asked_to_be(tmp_path, quiet):
    frame = people(60).drop(columns=["race", "city", "w", "age"])
    frame.to_parquet(tmp_path / "x.parquet")
    command = [sys.executable, "-m", "fairpca", "fit", tmp_path / "x.parquet", "-s", "sex"]
    command += ["--engine", "spark", "--master", "local[1]", *(["-q"] if quiet else [])]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    if quiet:
        assert (done.stdout, done.stderr) == ("", "")
    else:
        assert "protected: sex" in done.stdout


def test_importing_needs_pyspark(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("pyspark.ml")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "fairpca.spark", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'fairpca\[spark\]'"):
        __import__("fairpca.spark")
