"""What depends on the processor: OpenBLAS adds up in another order on each kind of it, so no result may come from its products."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from app.core.settings import PROJECT

PRODUCTS = {"dot", "inner", "vdot", "matmul", "tensordot", "einsum", "linalg", "polyfit", "cov", "corrcoef"}
EXACT = {"models/incidents/cause.py"}  # counts of paths, which are whole numbers
RESULTS = [
    file.relative_to(PROJECT).as_posix()
    for room in ("models", "pipelines", "replay", "app/simulator")
    for file in sorted((PROJECT / room).rglob("*.py"))
    if "challengers" not in file.parts
]


@pytest.mark.parametrize("file", RESULTS)
def test_no_result_is_made_by_a_product_of_openblas(file: str) -> None:
    tree = ast.parse(Path(PROJECT, file).read_text())
    found = [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult))
        or (isinstance(node, ast.Attribute) and node.attr in PRODUCTS)
    ]
    assert not found or file in EXACT, f"{file}, lines {found}: wanted sums in an order of their own, as by numpy.sum"
