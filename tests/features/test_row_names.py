"""Which buffer each feature row is about."""

import numpy as np
import pytest

from autosched import te
from autosched.features.row_names import in_order_of_store, in_reverse
from autosched.features.sets import FEATURE_SETS
from autosched.target import HardwareParams, Target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.transform.expressions.simplify import Simplify

CPU = Target("cpu", HardwareParams(4), 4)


@pytest.fixture(scope="module")
def func():
    """out = softmax-like over 8 rows: B is stored first, then its maximum M, then C."""
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 6), name="k")
    M = te.compute((8,), lambda i: te.max(B[i, k], axis=k), name="M")
    C = te.compute((8, 6), lambda i, j: te.exp(B[i, j] - M[i]), name="C")
    sch = te.create_schedule(C.op)
    return Simplify()(schedule_to_prim_func(sch.normalize_for_feature_extraction(), [A, C]))


def test_the_names(func):
    assert in_order_of_store(func) == ["B", "M", "C"]
    assert in_reverse(func) == ["C", "M", "B"]


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_a_name_for_every_row(name, func):
    """The only row with calls of exp is C's; the only one that reads what it writes is M's."""
    chosen = FEATURE_SETS[name]
    rows, names = chosen.extract(func, CPU), chosen.buffers(func)
    assert len(rows) == len(names)
    columns = {column: rows[:, k] for k, column in enumerate(chosen.columns)}
    assert names[int(np.argmax(columns["float_mathfunc"]))] == "C"
    updates = sum(columns[f"B{k}.acc_type.kReadWrite"] for k in range(3))
    assert names[int(np.argmax(updates))] == "M"
