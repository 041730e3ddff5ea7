"""The loops that stages are inside of."""

import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import cpu_target
from autosched.te.bounds.attach_path import attach_path, scans_of_inits
from autosched.tir.expr import IterVar
from kit.te import compute_of


def names(path: list[IterVar]) -> list[str]:
    return [iv.var.name for iv in path]


def test_first_steps_of_a_scan_are_where_the_scan_is() -> None:
    m, n = 6, 16
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    before = te.compute((1, n), lambda _, i: X[0, i], name="before")
    init = te.compute((1, n), lambda t, i: before[t, i], name="init")
    update = te.compute((m, n), lambda t, j: state[t - 1, j] + X[t, j], name="update")
    scan = te.scan(init, update, state, [X], name="scan")
    out = te.compute((m, n), lambda t, x: scan[t, x] + 1.0, name="out")
    s = te.create_schedule(out.op)
    s[scan].compute_at(s[out], compute_of(out).axis[0])
    s[scan].env_threads([te.thread_axis((0, 16), "threadIdx.x", "tx")])
    s[before].compute_at(s[init], compute_of(init).axis[1])
    scans = scans_of_inits(s.stages)
    assert scans == {init.op: s[scan]}
    assert names(attach_path(s[scan], scans)) == ["t"]
    assert names(attach_path(s[init], scans)) == ["tx", "t"]
    assert names(attach_path(s[before], scans)) == ["i", "t", "tx", "t"]
    assert names(attach_path(s[update], scans)) == ["scan.idx", "tx", "t"]
    assert names(attach_path(s[out], scans)) == []


def test_a_scan_inside_its_own_first_steps_is_refused() -> None:
    """The walk outwards went round and round."""
    X, state = te.placeholder((6, 16), name="X"), te.placeholder((6, 16), name="state")
    init = te.compute((1, 16), lambda t, i: X[t, i] * 2.0, name="init")
    update = te.compute((6, 16), lambda t, j: state[t - 1, j] + X[t, j], name="update")
    scan = te.scan(init, update, state, [X], name="scan")
    out = te.compute((6, 16), lambda t, x: scan[t, x] + 1.0, name="out")
    s = te.create_schedule(out.op)
    s[scan].compute_at(s[init], compute_of(init).axis[1])
    message = (
        "stage init is inside of init, which is inside of itself .first steps are .* to another"
    )
    with pytest.raises(ScheduleError, match=message):
        attach_path(s[init], scans_of_inits(s.stages))
    with pytest.raises(ScheduleError, match=r"infer_bound: stage .*, which is inside of itself"):
        lower(s, [X, out], cpu_target(threads=1))
