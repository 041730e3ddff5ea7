"""Races of threads that update the same element, which no barrier can prevent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from autosched.errors import ScheduleError
from autosched.tir.constants import is_one
from autosched.tir.dtype import int32
from autosched.tir.expr import BufferLoad, Call, Expr, Var
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from autosched.tir.walk import child_stmts, distinct, stmts, unique_exprs
from autosched.transform.device.thread_index import is_uniform

Axes = Mapping[str, frozenset[Var]]
"""Maps the tag of a thread axis to the variables that depend on it, its own included."""


def check_updates(region: AttrStmt, scope: str, function: str) -> None:
    """Raise ScheduleError if all threads along an axis update the same element of `scope`.

    Examples are a reduction in shared memory without a loop bound to threadIdx, and a reduction in
    global memory beside a stage that is bound to more axes. The threads do not all race if an index
    of the store, or a condition or loop bound around it, depends on the axis. An element in memory
    that all of them share has one value for all; so has an element of private memory into which all
    threads store the same value. Blocks share only global memory. Each warp has its own memory of
    scope warp, for which all axes are checked together.
    """
    axes: dict[str, frozenset[Var]] = {}
    for s in stmts(region):
        if isinstance(s, AttrStmt) and s.key == "thread_extent" and not is_one(s.value):
            tag = s.node.thread_tag or s.node.var.name
            if scope == "global" or tag.startswith("threadIdx"):
                axes[tag] = axes.get(tag, frozenset()) | {s.node.var}
    if scope == "warp" and axes:
        axes = {" and ".join(sorted(axes)): frozenset[Var]().union(*axes.values())}
    _Check(region, scope, function, axes).stmt(region, axes)


class _Check:
    def __init__(self, region: AttrStmt, scope: str, function: str, axes: Axes) -> None:
        self.region = region
        self.scope = scope
        self.function = function
        self.axes = axes
        self._differing: dict[str, set[Var]] = {}

    def stmt(self, s: Stmt, axes: Axes) -> None:
        """Check `s`; `axes` are the axes along which all threads reach `s`."""
        match s:
            case AttrStmt(key="hand_threaded"):
                return
            case LetStmt():
                same = self._uniform(axes, s.value)
                axes = {tag: v if tag in same else v | {s.var} for tag, v in axes.items()}
            case For() | IfThenElse() | While():
                axes = self._uniform(axes, *_decisive(s))
            case BufferStore() if s.buffer.scope == self.scope and _updates(s):
                missed = " and ".join(sorted(self._uniform(axes, *_places(s))))
                if missed:
                    raise ScheduleError(
                        f"ThreadSync: {self.function}: all threads along {missed} add to the same "
                        f"element of {s.buffer.name} in {self.scope} memory; bind a loop of its "
                        f"stage to {missed}"
                    )
        if not axes:
            return
        for child in child_stmts(s):
            self.stmt(child, axes)

    def _uniform(self, axes: Axes, *exprs: Expr) -> Axes:
        """The axes along which each of `exprs` has one value for all threads."""

        def alike(tag: str) -> Callable[[Var], bool]:
            return lambda pointer: pointer not in self._differ(tag)

        return {
            tag: v
            for tag, v in axes.items()
            if all(is_uniform(e, v, _common(tag), alike(tag)) for e in exprs)
        }

    def _differ(self, tag: str) -> set[Var]:
        """The variables, and pointers to memory, that differ between threads along axis `tag`."""
        if tag not in self._differing:
            found = self._differing[tag] = set(self.axes[tag])
            facts = [*_facts(self.region, ()), *_escaped(self.region)]
            number = 0
            while number < len(found):  # what is made of what differs may differ
                number = len(found)
                for var, exprs in facts:
                    if var not in found and not all(
                        is_uniform(e, found, _common(tag), lambda p: p not in found) for e in exprs
                    ):
                        found.add(var)
        return self._differing[tag]


_UNKNOWN = Call(int32, "ptx_lane_id", ())  # differs from thread to thread


def _facts(s: Stmt, around: tuple[Expr, ...]) -> Iterator[tuple[Var, tuple[Expr, ...]]]:
    """Each variable or stored pointer, with the expressions that decide its values."""
    match s:
        case LetStmt():
            yield s.var, (s.value,)
        case For() | IfThenElse() | While():
            around = (*around, *_decisive(s))
        case BufferStore():
            yield s.buffer.data, (s.value, *_places(s), *around)
    for child in child_stmts(s):
        yield from _facts(child, around)


def _escaped(region: Stmt) -> Iterator[tuple[Var, tuple[Expr, ...]]]:
    """The pointers passed to calls, which may store any value through them."""
    for e in unique_exprs(region):
        if isinstance(e, Var) and e.dtype.is_handle:
            yield e, (_UNKNOWN,)
        elif isinstance(e, Call):
            for part in e.args:
                if isinstance(part, BufferLoad):
                    yield part.buffer.data, (_UNKNOWN,)


def _decisive(s: For | IfThenElse | While) -> tuple[Expr, ...]:
    """The expressions that decide how often the body runs."""
    return (s.min, s.extent) if isinstance(s, For) else (s.condition,)


def _places(s: BufferStore) -> tuple[Expr, ...]:
    return s.indices if s.predicate is None else (*s.indices, s.predicate)


def _common(tag: str) -> tuple[str, ...]:
    """The memory scopes that all threads along the axis share."""
    if tag.startswith("blockIdx"):
        return ("global",)
    return ("global", "shared", "shared.dyn")


def _updates(s: BufferStore) -> bool:
    return any(
        isinstance(e, BufferLoad) and e.buffer.data is s.buffer.data and e.indices == s.indices
        for e in distinct(s.value)
    )
