"""LowerDeviceKernelLaunch: pass the launch sizes of a kernel at its call.

before:
    def main(A: Buffer((64,), float32), n: int32):
        attr("cuda", "target", 0)
        launch(blockIdx.x, n)
        launch(threadIdx.x, 16)
        S = allocate((16,), float32, "shared.dyn")
        S[threadIdx.x] = A[blockIdx.x * 16 + threadIdx.x]
        A[blockIdx.x * 16 + threadIdx.x] = S[threadIdx.x] + 1.0
after SplitHostDevice, LowerDeviceKernelLaunch:
    def main(A: Buffer((64,), float32), n: int32):
        call_packed("main_kernel", A, n, n, 16, 64, dtype=int32)

    def main_kernel(A: Buffer((64,), float32), n: int32):
        attrs(calling_conv=2, target="cuda", tir.is_global_func=True,
                tir.kernel_launch_params=["blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"])
        launch(blockIdx.x, n)
        launch(threadIdx.x, 16)
        S = allocate((16,), float32, "shared.dyn")
        S[threadIdx.x] = A[blockIdx.x * 16 + threadIdx.x]
        A[blockIdx.x * 16 + threadIdx.x] = S[threadIdx.x] + 1.0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.tir.dtype import int32
from autosched.tir.expr import Call, Expr, StringImm
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.op import cast, const
from autosched.tir.packed import DEVICE_KERNEL
from autosched.tir.stmt import Allocate, AttrStmt, Evaluate, Stmt
from autosched.tir.walk import free_vars, map_children, stmts, substitute
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import ModulePass

DYNAMIC_SHARED = "tir.use_dyn_shared_memory"


@dataclass(frozen=True)
class LowerDeviceKernelLaunch(ModulePass):
    """Mark the kernels that are called, and add the launch arguments to their calls.

    A call gets the extents of the kernel's thread axes, in the order in which they appear in it,
    and the bytes of its dynamic shared memory. A kernel gets `calling_conv` 2 and
    `tir.kernel_launch_params`, the tags that say what the added arguments are. Raises ScheduleError
    for a kernel with several allocations of dynamic shared memory or two lengths of a thread axis,
    for launch arguments that the host cannot know, and for a call whose number of arguments differs
    from the kernel's number of parameters.
    """

    name: ClassVar[str] = "LowerDeviceKernelLaunch"

    def apply_module(self, module: IRModule, ctx: PassContext) -> IRModule:
        called = {name for func in module.functions.values() for name in _called(func)}
        called &= set(module.functions)
        if not called:
            return module
        launches = {name: _launch(name, module[name]) for name in called}
        functions = {
            name: _marked(name, func, launches[name])
            if name in called
            else func.with_body(_with_launches(func.body, module, launches))
            for name, func in module.functions.items()
        }
        return IRModule(functions, module.attrs)


Launch = dict[str, Expr]


def kernel_call(s: Stmt) -> Call | None:
    """The call of a function of the module if `s` is one, else None."""
    if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == "call_packed":
        return s.value
    return None


def _called(func: PrimFunc) -> Iterator[str]:
    """The names of the functions that `func` calls."""
    for s in stmts(func.body):
        call = kernel_call(s)
        if call is not None and isinstance(call.args[0], StringImm):
            yield call.args[0].value


def _launch(name: str, kernel: PrimFunc) -> Launch:
    """The tags and values of a kernel's launch, in terms of the kernel's own variables."""
    found: Launch = {}
    dynamic: list[Allocate] = []
    for s in stmts(kernel.body):
        if isinstance(s, AttrStmt) and s.key == "thread_extent":
            tag = s.node.thread_tag or s.node.var.name
            known = found.setdefault(tag, s.value)
            if not Analyzer().can_prove_equal(known, s.value):
                raise ScheduleError(
                    f"LowerDeviceKernelLaunch: {name}: {tag} has the lengths {known!r} and "
                    f"{s.value!r}, but a kernel is launched with one; guard the shorter loop by a "
                    "condition"
                )
        elif isinstance(s, Allocate) and s.buffer_var.scope == "shared.dyn":
            dynamic.append(s)
    if len(dynamic) > 1:
        names = ", ".join(s.buffer_var.name for s in dynamic)
        raise ScheduleError(
            f"LowerDeviceKernelLaunch: {name}: only one allocation of dynamic shared memory can be "
            f"launched, found {names}; merge them first"
        )
    for s in dynamic:
        size: Expr = const(s.dtype.value_bytes)
        for extent in s.extents:
            size = size * cast(int32, extent)
        found[DYNAMIC_SHARED] = size
    for what, value in found.items():
        _check_known(name, kernel, what, value)
    return found


def _check_known(name: str, kernel: PrimFunc, what: str, value: Expr) -> None:
    """Raise ScheduleError unless the host can work out `value` from the kernel's arguments."""
    own = free_vars(value) - set(kernel.params)
    inside = ", ".join(sorted(v.name for v in own))
    if not own and not is_lasting(value):
        inside = "memory"
    if inside:
        raise ScheduleError(
            f"LowerDeviceKernelLaunch: {name}: {what} is {value!r}, which depends on {inside} of "
            "the kernel; a launch needs sizes that the host knows, such as parameters"
        )


def _marked(name: str, kernel: PrimFunc, launch: Launch) -> PrimFunc:
    return kernel.with_attrs(
        **{
            "global_symbol": name,
            "calling_conv": DEVICE_KERNEL,
            "tir.kernel_launch_params": list(launch),
        }
    )


def _with_launches(s: Stmt, module: IRModule, launches: dict[str, Launch]) -> Stmt:
    call = kernel_call(s)
    if call is None:
        return map_children(s, lambda part: _with_launches(part, module, launches))
    name = call.args[0]
    if not isinstance(name, StringImm) or name.value not in launches:
        return s
    kernel, arguments = module[name.value], call.args[1:]
    if len(arguments) != len(kernel.params):
        raise ScheduleError(
            f"LowerDeviceKernelLaunch: {name.value} is called with {len(arguments)} arguments, it "
            f"takes {len(kernel.params)}"
        )
    table = dict(zip(kernel.params, arguments, strict=True))
    values = [substitute(value, table) for value in launches[name.value].values()]
    return Evaluate(Call(call.dtype, call.op, (*call.args, *values)))
