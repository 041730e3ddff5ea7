"""Random programs of te, as text, and steps of schedules, as data: what both sides do alike.

`te` is autosched.te or TVM's; this file imports neither. Values are whole numbers, so that all
orders of a sum give the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from program_text import MAKERS, Maker, Named, Program, Size, as_tuple, at, numbers, some_axes

N = 11
"""What `n`, a size that only the call gives, is."""
BINARY = ("{0} + {1}", "{0} - {1}", "te.max({0}, {1})", "te.min({0}, {1})")


class Exact(Program):
    """A program of whole numbers, at times of a size `n`; results may be read, too."""

    sizes: ClassVar[tuple[int, ...]] = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 16)
    binary: ClassVar[tuple[str, ...]] = BINARY

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, rng.choice(("int32", "float32")))
        self.symbolic = rng.random() < 0.25
        if self.symbolic:
            self.lines.append("n = te.var('n')")

    def text(self) -> str:
        """The program; what nothing reads are its results, and at times what something reads."""
        results = [
            t
            for t in self.made
            if t not in self.inputs
            and t.name not in self.hidden
            and (t.name not in self.read or self.rng.random() < 0.05)
        ]
        inputs = [t for t in self.inputs if t.name in self.read]
        names = ", ".join(t.name for t in (*inputs, *results))
        return "\n".join([*self.lines, f"tensors, count = [{names}], {len(inputs)}"])

    def size(self) -> Size:
        """A length."""
        return "n" if self.symbolic and self.rng.random() < 0.5 else super().size()


def _unary(p: Program) -> None:
    x = p.some()
    form = p.rng.choice(("{0} + {1}", "te.max({0}, {1})", "select({0} > {1}, {0}, {1} - {0})"))
    p.compute(x.shape, form.format(at(x), p.const(p.rng.randint(-3, 3))), [x])


def _reduce(p: Program) -> None:
    x = p.some()
    axes = some_axes(p, x)
    kept = [a for a in range(len(x.shape)) if a not in axes]
    indices = [f"$k{a}" if a in axes else f"i{kept.index(a)}" for a in range(len(x.shape))]
    reduced = [(f"k{a}", x.shape[a]) for a in axes]
    where = p.rng.choice((f"$k{axes[0]} >= 1", f"$k{axes[0]} <= i0"))
    where = where if p.rng.random() < 0.2 else ""
    reducer = p.rng.choice(("te.sum", "te.sum", "te.max", "te.min"))
    p.compute([x.shape[a] for a in kept] or [1], at(x, indices), [x], reduced, reducer, where)


def _largest(p: Program) -> None:
    """The place of the largest and the largest."""
    x = p.some(2)
    name = f"S{len(p.made)}"
    p.lines.append(f"{name}_k = te.reduce_axis((0, {x.shape[1]}), name='k')")
    body = f"largest(({name}_k.var, {x.name}[i0, {name}_k]), {name}_k)"
    line = f"te.compute({as_tuple(x.shape[:1])}, lambda i0: {body}, name={name!r})"
    p.lines.append(f"{name}a, {name} = {line}")
    p.read.add(x.name)
    p.hidden.add(f"{name}a")
    p.made.append(Named(name, x.shape[:1]))


def _pair(p: Program) -> None:
    x = p.some()
    name = f"S{len(p.made)}"
    axes = ", ".join(f"i{k}" for k in range(len(x.shape)))
    body = f"({at(x)} + {p.const(1)}, {at(x)} - {p.const(2)})"
    line = f"te.compute({as_tuple(x.shape)}, lambda {axes}: {body}, name={name!r})"
    p.lines.append(f"{name}a, {name} = {line}")
    p.read.add(x.name)
    p.made += [Named(f"{name}a", x.shape), Named(name, x.shape)]


def _product(p: Program) -> None:
    x = p.some(2)
    rows, depth = x.shape
    columns = p.size()
    turned = p.rng.random() < 0.5
    y = p.like((columns, depth) if turned else (depth, columns))
    right = at(y, ["i1", "$k"] if turned else ["$k", "i1"])
    body = f"{at(x, ['i0', '$k'])} {p.rng.choice('+-')} {right}"
    p.compute((rows, columns), body, [x, y], [("k", depth)], "te.sum")


def _window(p: Program) -> None:
    """A convolution along the last axis but one, or a pooling."""
    x = p.some(2, known=True)
    length, channels = numbers(x)
    kernel = p.rng.randint(1, min(5, length))
    stride, outs = p.rng.choice((1, 1, 2)), p.rng.choice(p.sizes[:8])
    out = (length - kernel) // stride + 1
    place = f"i0 * {stride} + $rw"
    if p.rng.random() < 0.4:
        reducer = p.rng.choice(("te.max", "te.sum"))
        p.compute((out, channels), at(x, [place, "i1"]), [x], [("rw", kernel)], reducer)
        return
    w = p.placeholder((kernel, channels, outs))
    body = f"{at(x, [place, '$rc'])} - {at(w, ['$rw', '$rc', 'i1'])}"
    p.compute((out, outs), body, [x, w], [("rw", kernel), ("rc", channels)], "te.sum")


def _gather(p: Program) -> None:
    x = p.some()
    places = p.placeholder((p.size(),), "int32", operand=False)
    last = f"{x.shape[0]} - 1"
    place = f"te.max(te.min({places.name}[i0], {last}), 0)"
    rest = [f"i{a}" for a in range(1, len(x.shape))]
    p.compute((*places.shape, *x.shape[1:]), at(x, [place, *rest]), [x, places])


def _scan(p: Program) -> None:
    steps, width = p.rng.choice((2, 3, 5, 8)), p.size()
    x = p.like((steps, width))
    name = f"S{len(p.made)}"
    p.lines += [
        f"{name}_state = te.placeholder(({steps}, {width}), {p.dtype!r}, name='{name}_state')",
        f"{name}_init = te.compute((1, {width}), lambda t, i: {x.name}[0, i], name='{name}_init')",
    ]
    before, inner = f"{name}_state[t - 1, i]", ""
    if p.rng.random() < 0.5:
        shape = f"({steps}, {width})"
        body = f"{before} + {p.const(1)}"
        inner = f"{name}_inner = te.compute({shape}, lambda t, i: {body}, name='{name}_inner')"
        p.lines.append(inner)
        before = f"{name}_inner[t, i]"
    body = p.rng.choice(BINARY).format(before, f"{x.name}[t, i]")
    p.lines += [
        f"{name}_update = te.compute(({steps}, {width}), lambda t, i: {body}, "
        f"name='{name}_update')",
        f"{name} = te.scan({name}_init, {name}_update, {name}_state, [{x.name}], name={name!r})",
    ]
    p.read.add(x.name)
    p.made.append(Named(name, (steps, width)))


OWN: tuple[tuple[Maker, int], ...] = (
    (_unary, 4),
    (_reduce, 4),
    (_largest, 1),
    (_pair, 1),
    (_product, 3),
    (_window, 2),
    (_gather, 1),
    (_scan, 1),
)


def drawn(rng: random.Random) -> str:
    """A program of one to five stages."""
    return Exact(rng).grow((*MAKERS, *OWN), 5).text()


def names_for(names: Mapping[str, Any]) -> dict[str, Any]:
    """What the text of a program uses, with what either side has."""
    te = names["te"]

    def combine(x: Any, y: Any) -> tuple[Any, Any]:
        better = x[1] >= y[1]
        choose = names["select"]
        return choose(better, x[0], y[0]), choose(better, x[1], y[1])

    def identity(t0: str, t1: str) -> tuple[Any, Any]:
        return names["const"](-1, t0), te.min_value(t1)

    return {**names, "largest": te.comm_reducer(combine, identity, name="largest")}


Step = list[Any]


class Scheduled:
    """A schedule to which steps are applied; loops and stages are numbers in them."""

    def __init__(self, te: Any, outputs: Sequence[Any]) -> None:
        self.te = te
        self.schedule = te.create_schedule(outputs)
        self.threads: dict[str, Any] = {}

    def thread(self, tag: str) -> Any:
        """The axis of this tag, one for the schedule."""
        if tag == "vthread":
            return self.te.thread_axis(tag)
        return self.threads.setdefault(tag, self.te.thread_axis(tag))

    def loops(self, stage: Any) -> list[Any]:
        """Its loops; of a scan neither threads, which TVM has there, nor axes without a loop."""
        return [v for v in stage.leaf_iter_vars if not v.thread_tag and ".out" not in v.var.name]

    def apply(self, step: Step) -> None:
        """One step; what is wrong with it raises what the side raises."""
        kind, number, *args = step
        s = self.schedule
        stage = s.stages[number]
        leaves = self.loops(stage)
        if kind == "split":
            stage.split(leaves[args[0]], **{args[1]: args[2]})
        elif kind in ("fuse", "reorder"):
            getattr(stage, kind)(*(leaves[i] for i in args[0]))
        elif kind == "tile":
            stage.tile(leaves[args[0]], leaves[args[1]], *args[2:])
        elif kind == "compute_at":
            parent = s.stages[args[0]]
            stage.compute_at(parent, self.loops(parent)[args[1]])
        elif kind == "cache_read":
            readers = [s.stages[i].op for i in args[2]]
            s.cache_read(stage.op.output(args[0]), args[1], readers)
        elif kind == "cache_write":
            tensors = [stage.op.output(i) for i in range(args[1])]
            s.cache_write(tensors if args[1] > 1 else tensors[0], args[0])
        elif kind == "rfactor":
            s.rfactor(stage.op.output(0), leaves[args[0]], args[1])
        elif kind == "bind":
            stage.bind(leaves[args[0]], self.thread(args[1]))
        elif kind == "storage_align":
            stage.storage_align(stage.op.axis[args[0]], *args[1:])
        elif kind == "prefetch":
            inputs = getattr(stage.op, "input_tensors", None) or stage.op.inputs
            stage.prefetch(list(inputs)[args[0]], leaves[args[1]], args[2])
        elif kind == "set_store_predicate":
            thread = self.thread(args[0])
            stage.set_store_predicate(thread.var < args[1])
        elif kind == "env_threads":
            stage.env_threads([self.te.thread_axis((0, args[1]), args[0])])
        elif kind in ("compute_inline", "compute_root", "double_buffer", "set_scope"):
            getattr(stage, kind)(*args)
        else:  # of one loop
            getattr(stage, kind)(leaves[args[0]], *args[1:])
