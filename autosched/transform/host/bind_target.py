"""BindTarget: give every function the target that it is compiled for.

before:
    def main(A: Buffer((16,), float32)):
        for i in range(16):
            A[i] = 0.0
after BindTarget{kind="cuda", host="cpu"}:
    def main(A: Buffer((16,), float32)):
        attrs(target={"kind": "cuda", "host": "cpu"})
        for i in range(16):
            A[i] = 0.0

before:
    def main(A: Buffer((16,), float32)):
        attrs(tir.is_host_func=True)
        for i in range(16):
            A[i] = 0.0
after BindTarget{kind="cuda", host="cpu"}:
    def main(A: Buffer((16,), float32)):
        attrs(target={"kind": "cpu", "host": "cpu"})
        for i in range(16):
            A[i] = 0.0
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autosched.tir.function import PrimFunc
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.function_target import FunctionTarget, target_of
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class BindTarget(FunctionPass):
    """Set the attribute `target`: the kind, and for exported functions the host.

    A function that has a target keeps it; an exported one whose target has no host gets the host. A
    function marked `tir.is_host_func` is for the host itself, and loses the mark. With an empty
    `host` no host is set. Raises ConfigError for an unknown kind.
    """

    name: ClassVar[str] = "BindTarget"
    kind: str = "cpu"
    host: str = "cpu"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        host = FunctionTarget.of(self.host) if self.host else None
        exported = "global_symbol" in func.attrs
        known = target_of(func)
        if known is not None:
            if host is None or known.host is not None or not exported:
                return func
            return func.with_attrs(target=known.with_host(host).attribute)
        target = FunctionTarget.of(self.kind)
        if func.attrs.get("tir.is_host_func") and host is not None:
            rest = {k: v for k, v in func.attrs.items() if k != "tir.is_host_func"}
            own = host.with_host(host)
            return replace(func, attrs={**rest, "target": own.attribute})
        if exported and host is not None:
            target = target.with_host(host)
        return func.with_attrs(target=target.attribute)
