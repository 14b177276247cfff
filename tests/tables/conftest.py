"""A small table and a model of it, and a local Spark session."""

import os
import sys

import pytest
from table_support import FEATURES, people

from fairpca import FairPCA


@pytest.fixture
def frame():
    return people(500)


@pytest.fixture
def fair(frame):
    return FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("fairpca-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()
