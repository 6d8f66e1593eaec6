"""Log message -> template, in Spark's JVM: the table of models/templates/masks.py, which pipelines/jvm/LogTemplate.java interprets.

What `models.templates.extraction` does with a string, for a column.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from models.templates.masks import MAX_INPUT, MAX_TEMPLATE

__all__ = ["MAX_INPUT", "MAX_TEMPLATE", "template_id", "template_of"]


def template_of(message: Column) -> Column:
    """The template of a message, at most 1,024 characters; null for null."""
    return F.call_function("kappa_template", message)


def template_id(template: Column) -> Column:
    """16 lower-case hexadecimal digits that name a template."""
    return F.lower(F.lpad(F.hex(F.xxhash64(template)), 16, "0"))
