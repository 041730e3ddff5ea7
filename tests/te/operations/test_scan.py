"""te.scan: axes, grouping of the update, refusals."""

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.operation import ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.tir.expr import IterKind
from kit.tir import value_of


def _prefix_sum(m: int = 5, n: int = 4) -> tuple[Tensor, ...]:
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    mid = te.compute((m, n), lambda t, i: state[t - 1, i] * 1.0, name="mid")
    update = te.compute((m, n), lambda t, i: mid[t, i] + X[t, i], name="update")
    return X, state, init, mid, update, te.scan(init, update, state, [X], name="scan")


def test_axes_of_a_scan() -> None:
    *_, scan = _prefix_sum()
    op = scan.op
    assert isinstance(op, ScanOp)
    assert op.scan_axis.dom is not None
    assert (op.scan_axis.var.name, op.scan_axis.kind) == ("scan.idx", IterKind.ORDERED)
    assert (value_of(op.scan_axis.dom.min), value_of(op.scan_axis.dom.extent)) == (1, 4)
    assert [iv.kind for iv in op.spatial_axis] == [IterKind.OPAQUE]
    assert [value_of(e) for e in scan.shape] == [5, 4]


def test_the_update_is_attached_as_a_group() -> None:
    _X, _state, _init, mid, update, scan = _prefix_sum()
    s = te.create_schedule(scan.op)
    (group,) = s.groups
    assert {x.op.name for x in s.stages if x.group is group} == {"mid", "update"}
    assert group.attach_type is s[update].attach_type is AttachType.SCAN_UPDATE
    assert s[update].attach_stage is s[scan]
    assert s[mid].attach_spec() is group
    with pytest.raises(ScheduleError, match=r"compute_root: stage update: the update of a scan"):
        s[update].compute_root()
    assert isinstance(scan.op, ScanOp)
    with pytest.raises(ScheduleError, match=r"split: stage scan, axis .*opaque"):
        s[scan].split(scan.op.spatial_axis[0], factor=2)


def test_env_threads() -> None:
    *_, scan = _prefix_sum()
    s = te.create_schedule(scan.op)
    thread = te.thread_axis((0, 4), "threadIdx.x")
    s[scan].env_threads(thread)
    assert s[scan].env_thread_axes == [thread]
    with pytest.raises(ScheduleError, match="set already"):
        s[scan].env_threads([thread])
    with pytest.raises(ScheduleError, match=r"axis threadIdx.x: expected .* with a domain"):
        te.create_schedule(scan.op)[scan].env_threads(te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"env_threads: .*unknown thread tag 'pipeline'; the"):
        te.create_schedule(scan.op)[scan].env_threads(te.thread_axis((0, 4), "pipeline"))
    with pytest.raises(ScheduleError, match=r"axis vthread: vthread starts no thread; bind loops"):
        te.create_schedule(scan.op)[scan].env_threads(te.thread_axis((0, 4), "vthread"))


def test_caching_the_state_rebuilds_the_scan() -> None:
    _X, state, _init, mid, update, scan = _prefix_sum()
    s = te.create_schedule(scan.op)
    cached = s.cache_read(state, "local", [mid])
    assert s[mid].op.inputs == (cached,)
    whole = s[scan].op
    assert isinstance(whole, ScanOp)
    assert whole.update == (s[update].op.output(0),)
    assert s.outputs == [s[scan].op]


def test_shapes_must_fit() -> None:
    _X, state, init, _, update, _ = _prefix_sum()
    with pytest.raises(ValueError, match="give one of each"):
        te.scan([init, init], update, state)
    with pytest.raises(ValueError, match="needs an update of the same shape"):
        te.scan(init, te.placeholder((5, 3)), state)
    with pytest.raises(ValueError, match="differ in type"):
        te.scan(te.placeholder((1, 4), "int32"), update, state)
    with pytest.raises(ValueError, match=r"update u must be a te\.compute"):
        te.scan(init, te.placeholder((5, 4), name="u"), state)
    with pytest.raises(ValueError, match=r"state init2 must be a te\.placeholder"):
        te.scan(init, update, te.compute((5, 4), lambda i, j: 0.0, name="init2"))


def test_several_states() -> None:
    m, n = 5, 4
    A, B = te.placeholder((m, n), name="A"), te.placeholder((m, n), name="B")
    one = te.placeholder((1, n), name="one")
    a = te.compute((m, n), lambda t, i: B[t - 1, i] + 1.0, name="a")
    b = te.compute((m, n), lambda t, i: A[t - 1, i] + B[t - 1, i], name="b")
    states = te.scan([one, one], [a, b], [A, B])
    assert [t.name for t in states] == ["scan.v0", "scan.v1"]
    assert len(states[0].op.spatial_axis) == 2
