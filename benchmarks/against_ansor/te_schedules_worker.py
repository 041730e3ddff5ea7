"""TVM's te (see te_schedules.py): bounds, functions, values; runs in the peer's interpreter."""

from __future__ import annotations

import signal
from typing import Any

from worker import serve

import te_programs  # isort: skip  (after the worker, which takes standard output)
import numpy as np  # isort: skip
import tvm  # isort: skip
import worker_tasks  # isort: skip
from tvm import te, tir  # isort: skip

TIME = 60  # seconds of a question; then the process ends
BINARY = {
    tir.Add: "+",
    tir.Sub: "-",
    tir.Mul: "*",
    tir.FloorDiv: "//",
    tir.FloorMod: "%",
    tir.EQ: "==",
    tir.NE: "!=",
    tir.LT: "<",
    tir.LE: "<=",
    tir.GT: ">",
    tir.GE: ">=",
    tir.And: "and",
    tir.Or: "or",
    tir.Div: "/",
    tir.Mod: "%%",
}


class Text:
    """A function as lines that both sides write alike."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.lines: list[Any] = []

    def name(self, var: Any) -> str:
        return self.names.get(var, "".join(c if c.isalnum() else "_" for c in var.name))

    def bound(self, var: Any) -> None:
        self.names.setdefault(var, f"v{len(self.names)}")

    def expr(self, e: Any) -> str:
        if type(e) in BINARY:
            return f"({self.expr(e.a)} {BINARY[type(e)]} {self.expr(e.b)})"
        if isinstance(e, tir.Min | tir.Max):
            kind = "min" if isinstance(e, tir.Min) else "max"
            return f"{kind}({self.expr(e.a)}, {self.expr(e.b)})"
        if isinstance(e, tir.Not):
            return f"(not {self.expr(e.a)})"
        if isinstance(e, tir.IntImm):
            return str(int(e.value))
        if isinstance(e, tir.FloatImm):
            return repr(float(e.value))
        if isinstance(e, tir.StringImm):
            return repr(e.value)
        if isinstance(e, tir.Var):
            return self.name(e)
        if isinstance(e, tir.Cast):
            return f"cast({str(e.dtype)!r}, {self.expr(e.value)})"
        if isinstance(e, tir.Select):
            return f"ite({self.all(e.condition, e.true_value, e.false_value)})"
        if isinstance(e, tir.BufferLoad):
            return f"load({self.all(*e.indices, first=repr(e.buffer.name))})"
        if isinstance(e, tir.Call):
            name = e.op.name.removeprefix("tir.")
            if name == "if_then_else":
                return f"ite({self.all(*e.args)})"
            if name == "likely":
                return f"likely({self.expr(e.args[0])})"
            name = "tuple" if name == "tvm_tuple" else name
            return f"call({self.all(*e.args, first=repr(name))})"
        if isinstance(e, tir.Reduce) and not len(e.axis) and not len(e.init):  # rfactor's
            index = int(e.value_index)
            if isinstance(e.condition, tir.IntImm):
                return self.expr(e.source[index])
            other = e.combiner.identity_element[index]
            return f"ite({self.all(e.condition, e.source[index], other)})"
        return type(e).__name__

    def all(self, *parts: Any, first: str = "") -> str:
        return ", ".join([*([first] if first else []), *map(self.expr, parts)])

    def ranges(self, bounds: Any) -> list[str]:
        return [self.expr(e) for r in bounds for e in (r.min, r.extent)]

    def stmt(self, s: Any, depth: int = 0) -> None:
        add = self.lines.append
        if isinstance(s, tir.SeqStmt):
            for part in s:
                self.stmt(part, depth)
        elif isinstance(s, tir.For):
            kind = ("serial", "parallel", "vectorized", "unrolled", "thread")[int(s.kind)]
            ends = [self.expr(s.min), self.expr(s.extent)]
            self.bound(s.loop_var)
            add([depth, "for", kind, s.loop_var.name, self.name(s.loop_var), *ends])
            self.stmt(s.body, depth + 1)
        elif isinstance(s, tir.IfThenElse) and isinstance(s.condition, tir.IntImm):
            self.stmt(s.then_case, depth)
        elif isinstance(s, tir.IfThenElse):
            add([depth, "if", self.expr(s.condition)])
            self.stmt(s.then_case, depth + 1)
            if s.else_case is not None:
                add([depth, "else"])
                self.stmt(s.else_case, depth + 1)
        elif isinstance(s, tir.BufferStore):
            add([depth, "store", s.buffer.name, self.expr(s.value), *map(self.expr, s.indices)])
        elif isinstance(s, tir.BufferRealize):
            scope = s.buffer.scope()
            add([depth, "realize", s.buffer.name, scope, *self.ranges(s.bounds)])
            self.stmt(s.body, depth + 1)
        elif isinstance(s, tir.AttrStmt):
            node, value = s.node, s.value
            if isinstance(node, tir.IterVar):
                self.bound(node.var)
                about = node.thread_tag or node.var.name
            else:
                about = getattr(node, "name", "") if node is not None else ""
            value = self.expr(value)
            if s.attr_key == "reduce_scope":
                about = value = ""
            add([depth, "attr", s.attr_key, str(about), value])
            self.stmt(s.body, depth + 1)
        elif isinstance(s, tir.LetStmt):
            value = self.expr(s.value)
            self.bound(s.var)
            add([depth, "let", self.name(s.var), value])
            self.stmt(s.body, depth + 1)
        elif isinstance(s, tir.AssertStmt):
            add([depth, "assert", self.expr(s.condition)])
            self.stmt(s.body, depth + 1)
        elif isinstance(s, tir.Prefetch):
            add([depth, "prefetch", s.buffer.name, *self.ranges(s.bounds)])
        elif isinstance(s, tir.Evaluate):
            add([depth, "evaluate", self.expr(s.value)])
        elif isinstance(s, tir.Allocate):
            extents = [self.expr(e) for e in s.extents]
            add([depth, "allocate", s.buffer_var.name, str(s.dtype), *extents])
            self.stmt(s.body, depth + 1)
        else:
            add([depth, type(s).__name__])


class Now:
    """The program that is being asked about."""

    text: str
    done: list[te_programs.Step]


def _made(steps: list[te_programs.Step]) -> tuple[te_programs.Scheduled, list[Any], int]:
    names = te_programs.names_for(worker_tasks.NAMES)
    exec(Now.text, names)
    tensors, count = names["tensors"], names["count"]
    scheduled = te_programs.Scheduled(te, [t.op for t in tensors[count:]])
    for step in steps:
        scheduled.apply(step)
    return scheduled, tensors, count


def start(text: str) -> None:
    """Begin a case."""
    signal.alarm(TIME)
    Now.text, Now.done = text, []
    _made([])


def loops(steps: list[te_programs.Step]) -> list[Any]:
    """Stages and their loops after these steps."""
    signal.alarm(TIME)
    scheduled, _, _ = _made(steps)
    return [
        [s.op.name, [iv.var.name for iv in scheduled.loops(s)]] for s in scheduled.schedule.stages
    ]


def bounds(steps: list[te_programs.Step]) -> list[Any]:
    """Ranges of all axes of all stages, and the function."""
    signal.alarm(TIME)
    scheduled, tensors, _ = _made(steps)
    normal = scheduled.schedule.normalize()
    found = te.schedule.InferBound(normal)
    ranges = []
    plain = Text()
    for stage in normal.stages:
        if int(stage.attach_type) == 3:
            continue
        rows = []
        for iv in [*stage.all_iter_vars, *scheduled.loops(stage)]:
            if iv in found:
                low, extent = found[iv].min, found[iv].extent
                rows.append([iv.var.name, plain.expr(low), plain.expr(extent)])
        ranges.append([stage.op.name, rows])
    stmt = te.schedule.ScheduleOps(normal, found)
    func = te.schedule.SchedulePostProcToPrimFunc(tensors, stmt, None)
    text = Text()
    text.stmt(func.body)
    return [ranges, text.lines, str(func)]


def lowered(steps: list[te_programs.Step]) -> str:
    """Whether it is lowered: the text."""
    signal.alarm(TIME)
    scheduled, tensors, _ = _made(steps)
    return str(tvm.lower(scheduled.schedule, tensors, simple_mode=True))


def values(steps: list[te_programs.Step], inputs: list[Any]) -> list[Any]:
    """What the built function computes."""
    signal.alarm(TIME)
    scheduled, tensors, count = _made(steps)
    function = tvm.build(scheduled.schedule, tensors, "llvm")
    arrays = [np.array(x, t.dtype) for x, t in zip(inputs, tensors, strict=False)]
    for t in tensors[count:]:
        shape = [int(n) if isinstance(n, tir.IntImm) else te_programs.N for n in t.shape]
        arrays.append(np.zeros(shape, t.dtype))
    device = [tvm.nd.array(x) for x in arrays]
    function(*device)
    return [x.numpy().tolist() for x in device[count:]]


if __name__ == "__main__":
    serve(start=start, loops=loops, bounds=bounds, lowered=lowered, values=values)
