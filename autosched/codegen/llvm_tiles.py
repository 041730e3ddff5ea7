"""Calls of AMX: tile registers by number, all configured to their full size.

Configuring takes longer than sixteen products. The body of a parallel loop therefore configures the
tiles once at its start and releases them at its end. Nothing else uses tiles within it.

Linux gives tiles to a process that asks for them. A module that uses tiles asks when it is first
called (arch_prctl, ARCH_REQ_XCOMP_PERM; arch/x86/include/uapi/asm/prctl.h), and its functions
return NO_TILES if Linux refuses.
"""

from __future__ import annotations

from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_module import ModuleBuilder
from autosched.codegen.llvm_types import llvm_type
from autosched.tir.expr import Expr, IntImm
from autosched.tir.tiles import CONFIGURE, LOAD, RELEASE, ROW_BYTES, ROWS, STORE, TILES

NO_TILES = -2
"""The status of a function that may not use tiles."""
TILES_REFUSED = "the system does not let this process use AMX tiles (ARCH_REQ_XCOMP_PERM)"
"""What the status means."""
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
_CONFIGURATION = "@tile_configuration"
_ALLOWED = "@tiles_allowed"


def tile_call(b: FunctionBuilder, name: str, args: tuple[Expr, ...]) -> str:
    """One call of AMX, in which tile numbers are constants."""
    if name == CONFIGURE:
        _configuration(b.module)
        b.module.declare(name, "void @(ptr)")
        line = f"call void @{name}(ptr {_CONFIGURATION})"
        if not b.inside_parallel:
            b.line(line)
        elif f"  {line}" not in b.allocas:
            b.allocas.append(f"  {line}")
            b.module.declare(RELEASE, "void @()")
            b.last.append(f"  call void @{RELEASE}()")
        return "0"
    if name == RELEASE and b.inside_parallel:
        return "0"
    texts = []
    for k, arg in enumerate(args):
        number = isinstance(arg, IntImm) and (k == 0 or name not in (LOAD, STORE))
        text = str(arg.value) if number and isinstance(arg, IntImm) else b.value(arg)
        texts.append(f"{'i8' if number else llvm_type(arg.dtype)} {text}")
    kinds = ", ".join(
        f"{text.split()[0]}{' immarg' if text.startswith('i8 ') else ''}" for text in texts
    )
    b.module.declare(name, f"void @({kinds})")
    b.line(f"call void @{name}({', '.join(texts)})")
    if name in (STORE, RELEASE):
        b.forget_all()
    return "0"


def _configuration(module: ModuleBuilder) -> None:
    """The constant that ldtilecfg reads: palette 1, bytes of a row and rows of each tile."""
    if any(line.startswith(_CONFIGURATION) for line in module.globals):
        return
    data = bytearray(64)
    data[0] = 1
    for tile in range(TILES):
        data[16 + 2 * tile] = ROW_BYTES
        data[48 + tile] = ROWS
    text = "".join(f"\\{byte:02X}" for byte in data)
    kind = "private unnamed_addr constant [64 x i8]"
    module.globals.append(f'{_CONFIGURATION} = {kind} c"{text}", align 64')
    module.globals.append(f"{_ALLOWED} = internal global i8 0")


def permission(module: ModuleBuilder) -> list[str]:
    """Lines at the start of an entry function, which returns NO_TILES if tiles are refused.

    There are none in a module without tiles.
    """
    if not any(line.startswith(_CONFIGURATION) for line in module.globals):
        return []
    numbers = f"i64 {_ARCH_PRCTL}, i64 {_REQUEST}, i64 {_TILE_DATA}"
    registers = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
    return [
        f"  %allowed = load i8, ptr {_ALLOWED}",
        "  %known = icmp ne i8 %allowed, 0",
        "  br i1 %known, label %start, label %ask",
        "ask:",
        f'  %answer = call i64 asm sideeffect "syscall", "{registers}"({numbers})',
        "  %given = icmp eq i64 %answer, 0",
        "  br i1 %given, label %note, label %refused",
        "refused:",
        f"  ret i32 {NO_TILES}",
        "note:",
        f"  store i8 1, ptr {_ALLOWED}",
        "  br label %start",
        "start:",
    ]
