"""AnnotateEntryFunc: mark the entry function of a module.

before:
    def main(A: Buffer((16,), float32)):
        attrs(global_symbol=None)
        for i in range(16):
            if i == 5:
                if i == 5:
                    A[i] = 0.0
after:
    def main(A: Buffer((16,), float32)):
        attrs(global_symbol=None, tir.is_entry_func=True)
        for i in range(16):
            if i == 5:
                if i == 5:
                    A[i] = 0.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.function import IRModule
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import ModulePass

ENTRY = "tir.is_entry_func"


@dataclass(frozen=True)
class AnnotateEntryFunc(ModulePass):
    """Mark the only function of a module, or the only exported one, as its entry.

    If there are several candidates, or if the module is for the ahead-of-time executor, none is
    marked; that is no error.
    """

    name: ClassVar[str] = "AnnotateEntryFunc"

    def apply_module(self, module: IRModule, ctx: PassContext) -> IRModule:
        functions = module.functions
        exported = [name for name, func in functions.items() if "global_symbol" in func.attrs]
        candidates = list(functions) if len(functions) == 1 else exported
        if module.attrs.get("executor") == "aot" or len(candidates) != 1:
            return module
        (name,) = candidates
        if functions[name].attrs.get(ENTRY):
            return module
        marked = functions[name].with_attrs(**{ENTRY: True})
        return IRModule({**functions, name: marked}, module.attrs)
