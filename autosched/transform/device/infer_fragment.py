"""InferFragment: derive shape and layout of tensor core fragments from the calls that fill them.

before:
    def main():
        launch(threadIdx.x, 32)
        S = allocate((256,), float16, "shared")
        a = allocate((256,), float16, "wmma.matrix_a")
        b = allocate((256,), float16, "wmma.matrix_b")
        c = allocate((256,), float32, "wmma.accumulator")
        tvm_fill_fragment(c, 16, 16, 16, 0, 0.0)
        tvm_load_matrix_sync(a, 16, 16, 16, 0, address_of(S[0]), 16, "row_major")
        tvm_load_matrix_sync(b, 16, 16, 16, 0, address_of(S[0]), 16, "col_major")
        tvm_mma_sync(c, 0, a, 0, b, 0, c, 0)
after:
    def main():
        launch(threadIdx.x, 32)
        S = allocate((256,), float16, "shared")
        attr(data(a), "fragment_layout", "row_major")
        attr(data(a), "fragment_shape", "16, 16, 16")
        a = allocate((256,), float16, "wmma.matrix_a")
        attr(data(b), "fragment_layout", "col_major")
        attr(data(b), "fragment_shape", "16, 16, 16")
        b = allocate((256,), float16, "wmma.matrix_b")
        attr(data(c), "fragment_layout", "row_major")
        attr(data(c), "fragment_shape", "16, 16, 16")
        c = allocate((256,), float32, "wmma.accumulator")
        tvm_fill_fragment(c, 16, 16, 16, 0, 0.0)
        tvm_load_matrix_sync(a, 16, 16, 16, 0, address_of(S[0]), 16, "row_major")
        tvm_load_matrix_sync(b, 16, 16, 16, 0, address_of(S[0]), 16, "col_major")
        tvm_mma_sync(c, 0, a, 0, b, 0, c, 0)

before:
    def main():
        launch(threadIdx.x, 32)
        a = allocate((256,), float16, "wmma.matrix_a")
        b = allocate((256,), float16, "wmma.matrix_b")
        c = allocate((256,), float32, "wmma.accumulator")
        tvm_fill_fragment(a, 16, 16, 16, 0, float16(0.0))
        tvm_fill_fragment(c, 16, 16, 16, 0, 0.0)
        tvm_mma_sync(c, 0, a, 0, b, 0, c, 0)
refused:
    InferFragment: main: fragment b must be filled or loaded before use
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from autosched.errors import ScheduleError
from autosched.tir.expr import Call, Expr, IntImm, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Allocate, AttrStmt, Stmt
from autosched.tir.walk import map_children, unique_exprs
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_MOVES = {"tvm_load_matrix_sync": 8, "tvm_store_matrix_sync": 8}
_FILL = "tvm_fill_fragment"
_MULTIPLY = "tvm_mma_sync"
_ARGUMENTS = {**_MOVES, _FILL: 6, _MULTIPLY: 8}
_WITH_LAYOUT = ("wmma.matrix_a", "wmma.matrix_b")


@dataclass(frozen=True)
class InferFragment(FunctionPass):
    """Put the attributes fragment_shape ("m, n, k") and fragment_layout around fragments.

    A fragment in wmma.matrix_a or wmma.matrix_b has the layout of its load; a fragment that is
    filled counts as row_major. Raises ScheduleError for a fragment with two shapes or layouts, for
    one that is multiplied without being filled or loaded, and for a multiplication of different
    shapes.
    """

    name: ClassVar[str] = "InferFragment"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        calls = [e for e in unique_exprs(func.body) if isinstance(e, Call) and e.op in _ARGUMENTS]
        if not calls:
            return func
        found = _Fragments(func.name)
        for call in calls:
            found.note(call)
        for call in calls:
            if call.op == _MULTIPLY:
                found.check(call)
        return func.with_body(found.annotated(func.body))


@dataclass(frozen=True, slots=True)
class _Fragment:
    shape: tuple[int, ...]
    layout: str


class _Fragments:
    def __init__(self, function: str) -> None:
        self.function = function
        self.known: dict[Var, _Fragment] = {}

    def note(self, call: Call) -> None:
        """Record shape and layout of the fragment that `call` loads, stores or fills."""
        if len(call.args) != _ARGUMENTS[call.op]:
            self._fail(
                f"{call.op} takes {_ARGUMENTS[call.op]} arguments, found {len(call.args)}: {call!r}"
            )
        if call.op == _MULTIPLY:
            return
        data = self._fragment(call, 0)
        sizes = [e.value for e in call.args[1:4] if isinstance(e, IntImm)]
        if len(sizes) != 3:
            self._fail(f"the shape of {data.name} must be constant: {call!r}")
        layout = self._layout(call, data)
        new = _Fragment(tuple(sizes), layout)
        old = self.known.setdefault(data, new)
        if old.shape != new.shape:
            self._fail(f"fragment {data.name} has the shapes {old.shape} and {new.shape}")
        if data.scope in _WITH_LAYOUT and old.layout != new.layout:
            self._fail(f"fragment {data.name} has the layouts {old.layout} and {new.layout}")

    def check(self, call: Call) -> None:
        """Raise ScheduleError unless all fragments of a multiplication have one known shape."""
        shapes: dict[str, tuple[int, ...]] = {}
        for k in (0, 2, 4, 6):
            data = self._fragment(call, k)
            if data not in self.known:
                self._fail(f"fragment {data.name} must be filled or loaded before use")
            shapes[data.name] = self.known[data].shape
        if len(set(shapes.values())) > 1:
            each = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            self._fail(f"the fragments of a multiplication need one shape, found {each}")

    def annotated(self, s: Stmt) -> Stmt:
        """`s` with the attributes around each allocation of a fragment."""
        s = map_children(s, self.annotated)
        if not isinstance(s, Allocate) or s.buffer_var not in self.known:
            return s
        fragment = self.known[s.buffer_var]
        shape = StringImm(", ".join(map(str, fragment.shape)))
        new: Stmt = AttrStmt(s.buffer_var, "fragment_shape", shape, s)
        if fragment.layout:
            new = AttrStmt(s.buffer_var, "fragment_layout", StringImm(fragment.layout), new)
        return new

    def _layout(self, call: Call, data: Var) -> str:
        if call.op == _FILL:
            return "row_major"
        if data.scope not in _WITH_LAYOUT:
            return ""
        layout = call.args[7]
        if not isinstance(layout, StringImm):
            self._fail(f"the layout of {data.name} must be a string: {call!r}")
        return layout.value

    def _fragment(self, call: Call, k: int) -> Var:
        data: Expr = call.args[k]
        if not isinstance(data, Var) or not data.dtype.is_handle:
            self._fail(f"argument {k} of {call.op} must be a fragment, found {data!r}")
        return data

    def _fail(self, problem: str) -> NoReturn:
        raise ScheduleError(f"InferFragment: {self.function}: {problem}")
