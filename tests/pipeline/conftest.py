"""One Spark session for all tests of the pipeline, for starting one takes seconds; or one in each of two
processes (`make test`), for planning keeps one processor busy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from llft.lane import choice
from llft.pipeline.session import spark_session
from tests.pipeline.worlds import Audited, audit_all

SMALL = {
    # Planning again behind every stage takes longer than all there is to be read here.
    "spark.sql.adaptive.enabled": "false",
    # So does compiling; the test of the cluster and bench/pipeline.py run what is compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.default.parallelism": "2",
    # Young space and metaspace from the beginning: growing them costs a full collection each time.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn512m -XX:MetaspaceSize=256m"
    ),
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Its workers run the reference lane, as these tests do: bugs are planted in some of them."""
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(choice.VARIABLE, "reference")
        with spark_session(master="local[2,4]", memory="2g", settings=SMALL | warehouse) as session:
            yield session


@pytest.fixture(scope="session")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return audit_all(spark, tmp_path_factory.mktemp("worlds"))
