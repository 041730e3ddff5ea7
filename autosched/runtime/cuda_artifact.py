"""The result of a build for CUDA: source, cubins, and a plan that launches their kernels.

No host code is compiled. The host function is straight-line code, so it is read as a plan of
allocations and launches. An artifact holds no reference to a device and crosses process boundaries
as bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from autosched.codegen.cuda import emit_cuda, launch_of, written_pointers
from autosched.codegen.llvm import size_variables
from autosched.codegen.nvrtc import Compiled
from autosched.codegen.nvrtc_log import Resources
from autosched.errors import CompileError, MeasureError
from autosched.runtime.artifact import ParamSpec, params_of
from autosched.tir.expr import Call, Expr, FloatImm, IntImm, StringImm, Var
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.packed import DEVICE_KERNEL
from autosched.tir.stmt import Allocate, AttrStmt, DeclBuffer, Evaluate, SeqStmt, Stmt

_MAGIC = b"ASCUDA01"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the source with its launch configuration; shared memory is in bytes."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared: int
    dynamic_shared: int


@dataclass(frozen=True, slots=True)
class Alloc:
    """`size` bytes of device memory, which launches share under the name `workspace`."""

    workspace: str
    size: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel. An argument is a number, or the name of a parameter or workspace."""

    kernel: str
    args: tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True)
class CudaArtifact:
    """Kernels, the plan that runs them in order, and the parameters that callers pass.

    - `source`: CUDA C.
    - `statements`: the TIR statement from which a line of the source was made, by line number.
    - `cubins`: by architecture (sm_80).
    - `resources`: by architecture and kernel.
    """

    kernels: tuple[Kernel, ...]
    plan: tuple[Alloc | Launch, ...]
    params: tuple[ParamSpec, ...]
    source: str
    statements: dict[int, str]
    cubins: dict[str, bytes]
    resources: dict[str, dict[str, Resources]]

    def with_cubin(self, compiled: Compiled) -> CudaArtifact:
        """The artifact with the cubin for one more architecture."""
        cubins = {**self.cubins, compiled.arch: compiled.cubin}
        resources = {**self.resources, compiled.arch: compiled.resources}
        return replace(self, cubins=cubins, resources=resources)

    def to_bytes(self) -> bytes:
        """Serialise to bytes."""
        fields = {
            "kernels": [asdict(k) for k in self.kernels],
            "plan": [asdict(step) for step in self.plan],
            "params": [asdict(p) for p in self.params],
            "source": self.source,
            "statements": list(self.statements.items()),
            "cubins": {a: base64.b64encode(c).decode() for a, c in self.cubins.items()},
            "resources": {
                arch: {name: asdict(r) for name, r in found.items()}
                for arch, found in self.resources.items()
            },
        }
        return _MAGIC + json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> CudaArtifact:
        """The inverse of `to_bytes`. Raises MeasureError (stage load) for anything else."""
        if data[: len(_MAGIC)] != _MAGIC:
            raise MeasureError("not a compiled CUDA kernel: the first bytes differ", stage="load")
        fields = json.loads(data[len(_MAGIC) :])
        return cls(
            tuple(map(_kernel, fields["kernels"])),
            tuple(map(_step, fields["plan"])),
            tuple(map(ParamSpec.from_json, fields["params"])),
            fields["source"],
            {int(line): text for line, text in fields["statements"]},
            {arch: base64.b64decode(text) for arch, text in fields["cubins"].items()},
            {
                arch: {name: Resources(**r) for name, r in found.items()}
                for arch, found in fields["resources"].items()
            },
        )


def cuda_artifact(module: IRModule, host: str) -> CudaArtifact:
    """The artifact, without cubins yet, of a module that the device pipeline made.

    `host` is the name of the host function. Raises CompileError for host code that does more than
    allocate and launch.
    """
    functions = [f for f in module.functions.values() if _is_kernel(f)]
    source = emit_cuda(functions)
    func = module[host]
    if size_variables(func):
        names = ", ".join(var.name for var in size_variables(func))
        raise CompileError(f"{func.name}: the sizes {names} must be constants for CUDA")
    # Kernels use the host's pointers, so their stores tell which parameters are outputs.
    written = {pointer for f in functions for pointer in written_pointers(f)}
    params = params_of(func, written)
    plan = _Plan(func, params, {f.name: f for f in functions})
    plan.stmt(func.body)
    kernels = tuple(_sized(f) for f in functions)
    steps = tuple(plan.steps)
    return CudaArtifact(kernels, steps, params, source.text, source.statements, {}, {})


def _is_kernel(func: PrimFunc) -> bool:
    return func.attrs.get("calling_conv") == DEVICE_KERNEL


def _sized(func: PrimFunc) -> Kernel:
    size = launch_of(func)
    return Kernel(func.name, size.grid, size.block, size.static_shared, size.dynamic_shared)


class _Plan:
    """The plan of a host function, read from its statements."""

    def __init__(
        self, func: PrimFunc, params: tuple[ParamSpec, ...], kernels: Mapping[str, PrimFunc]
    ) -> None:
        self.function = func.name
        self.kernels = kernels
        self.steps: list[Alloc | Launch] = []
        self.names: dict[Var, str] = {}
        for var, spec in zip(func.params, params, strict=True):
            buffer = func.buffer_map.get(var)
            self.names[var if buffer is None else buffer.data] = spec.name

    def stmt(self, s: Stmt) -> None:
        match s:
            case SeqStmt():
                for part in s.stmts:
                    self.stmt(part)
            case DeclBuffer() | AttrStmt():
                self.stmt(s.body)
            case Allocate():
                self._allocate(s)
                self.stmt(s.body)
            case Evaluate(IntImm()):
                pass
            case Evaluate(Call(op="call_packed") as call):
                self._launch(call)
            case _:
                head = repr(s).split("\n")[0]
                raise CompileError(
                    f"{self.function}: the host would have to do `{head}`; bind the loops of every "
                    "stage to blockIdx and threadIdx"
                )

    def _allocate(self, s: Allocate) -> None:
        size = s.constant_bytes
        if size is None:
            raise CompileError(f"the size of {s.buffer_var.name} must be constant: {s.extents!r}")
        name = base = s.buffer_var.name
        count = 0
        while name in self.names.values():
            count += 1
            name = f"{base}_{count}"
        self.names[s.buffer_var] = name
        self.steps.append(Alloc(name, size))

    def _launch(self, call: Call) -> None:
        name = call.args[0]
        if not isinstance(name, StringImm) or name.value not in self.kernels:
            raise CompileError(f"{self.function}: the host would have to call {name!r}")
        given = call.args[1 : 1 + len(self.kernels[name.value].params)]
        self.steps.append(Launch(name.value, tuple(map(self._argument, given))))

    def _argument(self, e: Expr) -> str | int | float:
        match e:
            case Var() if e in self.names:
                return self.names[e]
            case IntImm() | FloatImm():
                return e.value
        raise CompileError(f"{self.function}: the host would have to compute {e!r} for a launch")


def _kernel(fields: Mapping[str, Any]) -> Kernel:
    grid, block = tuple(fields["grid"]), tuple(fields["block"])
    return Kernel(**{**fields, "grid": grid, "block": block})


def _step(fields: Mapping[str, Any]) -> Alloc | Launch:
    if "kernel" in fields:
        return Launch(fields["kernel"], tuple(fields["args"]))
    return Alloc(**fields)
