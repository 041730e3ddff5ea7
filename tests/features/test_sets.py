"""Every column of every feature set has a group and a meaning, every row a buffer."""

import pytest

from autosched import te
from autosched.driver import lower_for_features
from autosched.errors import ConfigError
from autosched.features.sets import FEATURE_SETS, feature_set
from autosched.target import cpu_target
from autosched.task import Task
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.transform.expressions.simplify import Simplify
from kit.te import compute_of


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_columns(name: str) -> None:
    chosen = FEATURE_SETS[name]
    assert len(set(chosen.columns)) == len(chosen.columns)
    meanings = [chosen.meaning(column) for column in chosen.columns]
    assert all(meanings)
    assert not any("{" in text for text in meanings)


def test_the_groups_of_ansors_set() -> None:
    sizes = {group: len(names) for group, names in feature_set("ansor-0.19").groups.items()}
    assert sizes == {
        "computation": 57,
        "buffer access": 90,
        "arithmetic intensity": 10,
        "allocation": 4,
        "outer scope": 3,
    }


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"feature set 'x' is unknown, expected ansor-0\.19"):
        feature_set("x")


def test_every_row_has_the_name_of_its_buffer() -> None:
    """Ansor's rows begin with what is stored last."""
    task = Task.from_workload("dense_bias_relu", M=8, N=8, K=8)
    func = lower_for_features(task.dag, (), task.target)
    stored = ["T", "U", "relu"]
    for name, expected in (("ansor-0.19", stored[::-1]), ("autosched-1", stored)):
        chosen = FEATURE_SETS[name]
        values, names = chosen.with_buffers(func, task.target)
        assert names == expected
        assert len(values) == len(expected)
        assert values.tobytes() == chosen.extract(func, task.target).tobytes()


def test_names_follow_what_passes_move() -> None:
    """The start of the sum goes into the loop where B is copied: C is then stored second."""
    A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    sch = te.create_schedule(C.op)
    copy = sch.cache_read(B, "global", [C])
    stage = sch[C]
    i, j = compute_of(stage).axis
    outer, inner = stage.split(j, factor=16)
    stage.reorder(outer, i, compute_of(stage).reduce_axis[0], inner)
    stage = sch[copy]
    stage.compute_at(sch[C], outer)
    func = Simplify()(schedule_to_prim_func(sch.normalize_for_feature_extraction(), [A, B, C]))
    target = cpu_target(threads=2)
    chosen = FEATURE_SETS["autosched-1"]
    rows, names = chosen.with_buffers(func, target)
    mads = rows[:, chosen.columns.index("float_mad")]
    assert {name: bool(n) for name, n in zip(names, mads, strict=True)} == {
        "B.global": False,
        "C": True,
    }
