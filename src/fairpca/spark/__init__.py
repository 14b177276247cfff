"""FairPCA as a stage of Spark ML pipelines, with a model, an evaluator, and files without pickle.

Needs pyspark 4.0 with Java 17, and fairpca for the Python of the executors. Spark Connect works.
"""

from __future__ import annotations

import json
import tempfile
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairpca import estimators
from fairpca._choices import MISSING
from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_spark
from fairpca.tables._model import read_model
from fairpca.tables._roles import is_number
from fairpca.tables.spark import arrow_schema, quoted

try:
    from pyspark.ml import Estimator, Model
    from pyspark.ml.evaluation import Evaluator
    from pyspark.ml.functions import array_to_vector, vector_to_array
    from pyspark.ml.param import Param, Params
    from pyspark.ml.param import TypeConverters as To
    from pyspark.ml.param.shared import HasInputCol, HasInputCols, HasOutputCol, HasWeightCol
    from pyspark.ml.util import (
        DefaultParamsReadable,
        DefaultParamsReader,
        DefaultParamsWriter,
        MLReadable,
        MLReader,
        MLWritable,
        MLWriter,
    )
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
except ImportError:
    raise ImportError(
        "fairpca.spark needs pyspark: pip install 'fairpca[spark]', and Java 17 or 21"
    ) from None


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else To.toListString(value)


def _number(value: Any) -> int | float:
    """Read a number of components, or the share of the variance that they hold."""
    return value if isinstance(value, float) and 0.0 < value < 1.0 else To.toInt(value)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.title, rest))


# Parameters of fairpca.FairPCA, and how Spark reads them.
_CONVERTERS: dict[str, Any] = {
    "n_components": _number,
    "mean_tol": To.toFloat,
    "cov_weight": To.toFloat,
    "cov_tol": To.toFloat,
    "solver": To.toString,
    "objective": To.toString,
    "compare": To.toString,
    "joint": To.toBoolean,
    "reference": To.identity,
    "numeric": _names,
    "min_group_size": To.toInt,
    "certify": To.toBoolean,
    "cov_shift": To.toFloat,
    "whiten": To.toBoolean,
    "standardize": To.identity,
    "tol": To.toFloat,
    "max_iter": To.toInt,
    "missing": To.toString,
    "missing_groups": To.toString,
}


def _parameter(name: str, about: str, converter: Any) -> Any:
    return Param(Params._dummy(), name, about, typeConverter=converter)


class _Columns(HasInputCols, HasInputCol, HasOutputCol, MLWritable):
    """The features, as number columns or one vector column, and the vector that comes of them."""

    handleInvalid = _parameter(
        "handleInvalid",
        "missing values in transform: error (looked for first) or lazy (when it is computed)",
        To.toString,
    )

    def _set_known(self, values: dict[str, Any]) -> None:
        unknown = [name for name in values if not self.hasParam(name)]
        if unknown:
            known = ", ".join(sorted(param.name for param in self.params))
            raise InvalidInputError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}: it has {known}.",
                parameter=unknown[0],
            )
        self._set(**values)

    def write(self) -> MLWriter:
        """Return a writer of the parameters, and of the fitted model where there is one."""
        return _Writer(self)

    def _features(self, data: Any) -> dict[str, Any]:
        """Return a Spark column of doubles for each feature, by name."""
        if self.isSet(self.inputCols):
            names = _checked_numbers(self.getInputCols(), data)
            return {name: F.col(quoted(name)).cast("double") for name in names}
        if not self.isSet(self.inputCol):
            raise InvalidInputError("name the features with inputCols, or a vector with inputCol.")
        return _unpacked(data, self.getInputCol())


def _checked_numbers(names: list[str], data: Any) -> list[str]:
    types = arrow_schema(data)
    for name in names:
        if name not in types.names:
            raise InvalidInputError(f"the table has no column {name!r}.", parameter="inputCols")
        if not is_number(types.field(name).type):
            raise InvalidInputError(
                f"column {name!r} is {types.field(name).type}: encode it as numbers first, for "
                "example with StringIndexer and OneHotEncoder.",
                parameter="inputCols",
            )
    return names


def _unpacked(data: Any, name: str) -> dict[str, Any]:
    """Return the elements of a vector column; a vector of another length has none of them."""
    if name not in data.columns:
        raise InvalidInputError(f"the table has no column {name!r}.", parameter="inputCol")
    values = vector_to_array(F.col(quoted(name)))
    first = data.select(F.size(values).alias("n")).where(F.col("n") > 0).first()
    if first is None:
        raise InvalidInputError(f"column {name!r} holds no vector.", parameter="inputCol")
    fits = F.when(F.size(values) == first["n"], values)
    return {f"{name}[{index}]": F.get(fits, F.lit(index)) for index in range(first["n"])}


class _FairParams(_Columns, HasWeightCol):
    sensitiveCol = _parameter("sensitiveCol", "protected column, or columns", _names)
    controlCols = _parameter("controlCols", "columns of strata", _names)


for _name, _converter in _CONVERTERS.items():
    _param = _parameter(_camel(_name), f"{_name} of fairpca.FairPCA", _converter)
    setattr(_FairParams, _camel(_name), _param)


class FairPCA(_FairParams, Estimator, DefaultParamsReadable):
    """Fair principal components as an estimator of Spark ML.

    The rows are summed by `moments_from_spark` in one pass; the fit itself is local and small.

    Parameters
    ----------
    inputCols : list of str
        Features, one number column each; or
    inputCol : str
        one vector column.
    sensitiveCol : str or list of str
        Protected attributes.
    controlCols, weightCol
        Strata, and a column of weights.
    outputCol : str, default "fairpca"
        Vector of scores that the model appends.
    handleInvalid : {"error", "lazy"}, default "error"
        Missing values in `transform`: "error" counts them in a pass of its own and raises an
        InvalidInputError that names the columns; "lazy" saves that pass, and the action on the
        result fails with an error of Spark that names the first column. Streams are always lazy.
    nComponents, meanTol, covWeight, covTol, solver, objective, compare, joint, reference
        The parameters of `fairpca.FairPCA`, in Spark's spelling; likewise numeric,
        minGroupSize, certify, covShift, whiten, standardize, tol and maxIter. nComponents may be
        a share of the variance, such as 0.9.
    missing : {"error", "drop-rows", "mean"}, default "error"
        Null and NaN among the features, as in `fairpca.FairPCA`: `transform` counts them as the
        mean unless this is "error". Infinities are always an error.
    missingGroups : {"raise", "own"}, default "raise"
        Rows without a group or stratum: an error, or a group of their own.

    See Also
    --------
    fairpca.FairPCA : The same for rows in memory; it says what the parameters mean.
    FairnessEvaluator : Measures the scores in a `CrossValidator`.
    """

    def __init__(self, **values: Any) -> None:
        super().__init__()
        own = estimators.FairPCA().get_params()
        defaults = {_camel(name): own[name] for name in _CONVERTERS}
        self._setDefault(outputCol="fairpca", handleInvalid="error", **defaults)
        self._set_known(values)

    def setParams(self, **values: Any) -> FairPCA:
        """Set parameters by keyword, as the constructor does."""
        self._set_known(values)
        return self

    def settings(self) -> dict[str, Any]:
        """Return the parameters of `fairpca.FairPCA` under their own names."""
        return {name: self.getOrDefault(_camel(name)) for name in _CONVERTERS}

    def _fit(self, dataset: Any) -> FairPCAModel:
        if not self.isSet(self.sensitiveCol):
            raise InvalidInputError("name the protected column with sensitiveCol.")
        fitted = estimators.FairPCA(**(settings := self.settings()))
        fitted._validate_params()  # before a pass that may take long
        control = self.getOrDefault(self.controlCols) if self.isSet(self.controlCols) else None
        weight = self.getWeightCol() if self.isSet(self.weightCol) else None
        sensitive = self.getOrDefault(self.sensitiveCol)
        if self.isSet(self.inputCols):  # by name: a Spark column for each takes several calls
            data, names = dataset, _checked_numbers(self.getInputCols(), dataset)
        else:
            features = self._features(dataset)
            others = [*sensitive, *(control or ()), *([weight] if weight else ())]
            columns = [*(c.alias(n) for n, c in features.items()), *map(quoted, others)]
            data, names = dataset.select(*columns), list(features)
        options = {name: settings[name] for name in ("numeric", "missing", "missing_groups")}
        moments = moments_from_spark(data, sensitive, names, control, weight, **options)
        return self._copyValues(FairPCAModel(fitted.fit_moments(moments)))


class FairPCAModel(_FairParams, Model, MLReadable):
    """What `FairPCA` fits: appends a vector of scores to a table, lazily, in Spark itself.

    It has the parameters that it was fitted with, as ``model.getOrDefault("nComponents")``.
    `fitted` is the `fairpca.FairPCA`; its `save` writes the file that `fairpca transform` reads.

    See Also
    --------
    FairPCA : The estimator that returns it.
    """

    def __init__(self, fitted: estimators.FairPCA | None = None) -> None:
        super().__init__()
        self._setDefault(outputCol="fairpca", handleInvalid="error")
        self.fitted = fitted

    def _transform(self, dataset: Any) -> Any:
        if self.fitted is None:
            raise InvalidInputError("the model is not fitted.")
        features, weights = self._features(dataset), read_model(self.fitted)
        if len(features) != len(weights.mean):
            raise InvalidInputError(
                f"the model knows {len(weights.mean)} features, and the table has {len(features)}."
            )
        if weights.missing != MISSING[0]:
            means = zip(features.items(), map(float, weights.mean), strict=True)
            features = {
                name: F.when(column.isNull() | F.isnan(column), mean).otherwise(column)
                for (name, column), mean in means
            }
        if self.getOrDefault(self.handleInvalid) == "error" and not dataset.isStreaming:
            _check_complete(dataset, features)
        complete = [_complete(column, name) for name, column in features.items()]
        centred = [value - float(m) for value, m in zip(complete, weights.mean, strict=True)]
        units = 1.0 if weights.scale is None else weights.scale[:, None]
        scores = [_dot(centred, direction) for direction in weights.components / units]
        return dataset.withColumn(self.getOutputCol(), array_to_vector(F.array(*scores)))

    @classmethod
    def read(cls) -> MLReader:
        """Return a reader of what `write` wrote."""
        return _Reader(cls)


def _is_finite(column: Any) -> Any:
    known = ~F.isnan(column) & (F.abs(column) < float("inf"))
    return F.coalesce(known, F.lit(False))


def _check_complete(data: Any, features: dict[str, Any]) -> None:
    """Count what is missing in one job, since an error of ours must be raised here."""
    missing = (F.count_if(~_is_finite(column)) for column in features.values())
    row = data.select(*(column.alias(f"c{index}") for index, column in enumerate(missing))).first()
    counts = {name: count for name, count in zip(features, row, strict=True) if count}
    if counts:
        listed = ", ".join(f"{name!r} {count:,}" for name, count in counts.items())
        raise InvalidInputError(
            f"missing or infinite values (by column: {listed}): fill them in, or leave those rows "
            "out.",
            parameter="handleInvalid",
        )


def _complete(column: Any, name: str) -> Any:
    """Return a column that raises, when it is computed, where it has no finite number."""
    words = f"column {name!r} has missing or infinite values: fill them in, or leave those rows out"
    said = F.raise_error(F.lit(f"fairpca: {words}")).cast("double")
    return F.when(_is_finite(column), column).otherwise(said)


def _dot(columns: list[Any], factors: Any) -> Any:
    """Sum as a tree: Spark's own expressions are nested, and a chain would be too deep."""
    terms = [column * float(factor) for column, factor in zip(columns, factors, strict=True)]
    while len(terms) > 1:
        terms = [reduce(add, terms[start : start + 8]) for start in range(0, len(terms), 8)]
    return terms[0]


class _Writer(MLWriter):
    """Writes parameters as JSON and a model as the bytes of its file, by Spark's own writers."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        session = self._sparkSession or SparkSession.active()
        mode = "overwrite" if self.shouldOverwrite else "error"
        text = DefaultParamsWriter._get_metadata_to_save(self.instance, session)
        frame = session.createDataFrame([(text,)], "value string")
        frame.coalesce(1).write.mode(mode).text(f"{path}/metadata")
        fitted = getattr(self.instance, "fitted", None)
        if fitted is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            content = fitted.save(Path(folder, "model.npz")).read_bytes()
        frame = session.createDataFrame([(bytearray(content),)], "content binary")
        frame.coalesce(1).write.mode(mode).parquet(f"{path}/data")


class _Reader(MLReader):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        session = self._sparkSession or SparkSession.active()
        metadata = json.loads(session.read.text(f"{path}/metadata").first()[0])
        content = session.read.parquet(f"{path}/data").first()["content"]
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "model.npz")
            place.write_bytes(bytes(content))
            model = self.kind(estimators.load_model(place))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


class FairnessEvaluator(_Columns, Evaluator, DefaultParamsReadable):
    """Measures a vector of scores, for `CrossValidator`: its variance, or its gaps.

    Parameters
    ----------
    inputCol : str, default "fairpca"
        Vector of scores.
    sensitiveCol : str or list of str
        Protected attributes.
    metricName : {"variance", "meanGap", "covGap"}, default "variance"
        Variance of the scores, less `gapPenalty` times their largest gap of means (larger is
        better); or the largest distance between group means, or between group covariances
        (smaller is better).
    gapPenalty : float, default 0.0
        Penalty on a unit of the gap.
    compare : str, default "one-vs-rest"
        As in `fairpca.FairPCA`.

    See Also
    --------
    fairpca.metrics.mean_gap, fairpca.metrics.cov_gap : The same gaps of rows in memory.
    """

    sensitiveCol = _FairParams.sensitiveCol
    compare = _FairParams.compare
    metricName = _parameter("metricName", "variance, meanGap or covGap", To.toString)
    gapPenalty = _parameter("gapPenalty", "penalty on a unit of the gap of means", To.toFloat)
    _METRICS: ClassVar = ("variance", "meanGap", "covGap")

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self._setDefault(metricName="variance", gapPenalty=0.0, compare="one-vs-rest")
        self._set_known({"inputCol": "fairpca", **values})

    def isLargerBetter(self) -> bool:
        """Tell whether the best model has the largest value."""
        return bool(self.getOrDefault(self.metricName) == "variance")

    def _evaluate(self, dataset: Any) -> float:
        metric = self.getOrDefault(self.metricName)
        if metric not in self._METRICS:
            raise InvalidInputError(f"metricName={metric!r}: use one of {self._METRICS}.")
        scores, sensitive = self._features(dataset), self.getOrDefault(self.sensitiveCol)
        groups = (F.col(quoted(name)) for name in sensitive)
        data = dataset.select(*(c.alias(n) for n, c in scores.items()), *groups)
        moments = moments_from_spark(data, sensitive, list(scores)).expanded()
        contrasts = moments.contrasts(self.getOrDefault(self.compare))
        gaps = contrasts.projected_gaps(np.eye(moments.n_features))
        mean, cov = (max((g for g in part if g is not None), default=0.0) for part in gaps)
        if metric == "variance":
            kept = float(np.trace(moments.pooled().covariance))
            return kept - float(self.getOrDefault(self.gapPenalty)) * mean
        return float(mean if metric == "meanGap" else cov)
