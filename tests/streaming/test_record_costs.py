"""What a record takes of a core has a bound, whatever it is: `python -m benchmarks.record_costs` has the figures."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support.costly_records import COSTLY
from support.record_costs import bound_ms, costs

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BUSY = 4.0  # a machine with other work takes more of the processor for the same


@pytest.mark.parametrize("topic", COSTLY)
def test_no_record_takes_more_of_a_core_than_its_bound(spark: SparkSession, topic: str) -> None:
    records = COSTLY[topic]
    found = zip(records, costs(spark, topic, records, 4, 3), strict=True)
    assert {each.name: cost for each, cost in found if cost > BUSY * bound_ms(each)} == {}
