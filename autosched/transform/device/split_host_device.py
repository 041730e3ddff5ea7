"""SplitHostDevice: turn each device region into a function, with a call in its place.

before:
    def main(A: Buffer((16,), float32), n: int32):
        attr("cuda", "target", 0)
        launch(threadIdx.x, 16)
        if threadIdx.x < n:
            A[threadIdx.x] = 0.0
after:
    def main(A: Buffer((16,), float32), n: int32):
        call_packed("main_kernel", A, n, dtype=int32)

    def main_kernel(A: Buffer((16,), float32), n: int32):
        attrs(target="cuda", tir.is_global_func=True)
        launch(threadIdx.x, 16)
        if threadIdx.x < n:
            A[threadIdx.x] = 0.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import handle, int32
from autosched.tir.expr import Call, Expr, StringImm, Var
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.stmt import Allocate, AttrStmt, DeclBuffer, Evaluate, Stmt
from autosched.tir.undefined import buffers_in, undefined
from autosched.tir.walk import map_children, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import ModulePass


@dataclass(frozen=True)
class SplitHostDevice(ModulePass):
    """Move each statement under an attribute `target` into a function of its own.

    The functions are named NAME_kernel, NAME_kernel_1 and so on after the original function. Their
    parameters are the memory that the region uses (first the parameters of the function, in order,
    then allocations of the host) and then its scalars by name. The host calls a function by
    `call_packed`.
    """

    name: ClassVar[str] = "SplitHostDevice"

    def apply_module(self, module: IRModule, ctx: PassContext) -> IRModule:
        functions = dict(module.functions)
        for name, func in module.functions.items():
            splitter = _Splitter(name, func, set(functions))
            body = splitter.host(func.body)
            functions[name] = func.with_body(body)
            functions.update(splitter.kernels)
        changed = len(functions) > len(module.functions)
        return IRModule(functions, module.attrs) if changed else module


class _Splitter:
    def __init__(self, name: str, func: PrimFunc, taken: set[str]) -> None:
        self.func = func
        self.taken = taken
        self.base = f"{name}_kernel"
        self.kernels: dict[str, PrimFunc] = {}
        self.workspaces: dict[Var, Buffer] = {}

    def host(self, s: Stmt) -> Stmt:
        """`s` with each region replaced by a call."""
        if isinstance(s, Allocate):
            self.workspaces[s.buffer_var] = _whole(s)
        if isinstance(s, AttrStmt) and s.key == "target":
            return self._call(s)
        return map_children(s, self.host)

    def _call(self, region: AttrStmt) -> Stmt:
        name = self._new_name()
        free = undefined(region.body)
        params: list[Var] = []
        arguments: list[Expr] = []
        buffers: dict[Var, Buffer] = {}
        for param in self.func.params:
            buffer = self.func.buffer_map.get(param)
            if buffer is not None and buffer.data in free:
                params.append(param)
                arguments.append(buffer.data)
                buffers[param] = buffer
        for data, buffer in self.workspaces.items():
            if data in free:
                param = Var(data.name, handle)
                params.append(param)
                arguments.append(data)
                buffers[param] = buffer
        known = {buffer.data for buffer in buffers.values()}
        scalars = sorted(free - known, key=lambda var: (not var.dtype.is_handle, var.name))
        body = region.body
        for view in reversed(_views(body, set(buffers.values()), known)):
            body = DeclBuffer(view, body)
        attrs = {"global_symbol": name, "target": region.node, "tir.is_global_func": True}
        if "tir.noalias" in self.func.attrs:
            attrs["tir.noalias"] = self.func.attrs["tir.noalias"]
        self.kernels[name] = PrimFunc((*params, *scalars), body, buffers, attrs)
        return Evaluate(Call(int32, "call_packed", (StringImm(name), *arguments, *scalars)))

    def _new_name(self) -> str:
        name, count = self.base, 0
        while name in self.taken:
            count += 1
            name = f"{self.base}_{count}"
        self.taken.add(name)
        return name


def _whole(s: Allocate) -> Buffer:
    """The buffer over all that `s` allocates: one that is already used, or else a new one."""
    for buffer in buffers_in(s.body):
        same = buffer.dtype is s.dtype and buffer.shape == s.extents and not buffer.strides
        if buffer.data is s.buffer_var and same and buffer.elem_offset is None:
            return buffer
    return Buffer(s.buffer_var, s.dtype, s.extents, name=s.buffer_var.name)


def _views(body: Stmt, declared: set[Buffer], pointers: set[Var]) -> list[Buffer]:
    """The further buffers over the memory `pointers` that `body` uses but does not declare."""
    inside = {s.buffer for s in stmts(body) if isinstance(s, DeclBuffer)}
    found = dict.fromkeys(b for b in buffers_in(body) if b.data in pointers)
    return [b for b in found if b not in declared and b not in inside]
