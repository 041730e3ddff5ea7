"""LLVM assembly that checks for missing CPU features before any code of a library needs them.

`ptr @lib.look_at_cpu()` returns null, or a message that names the missing features. It asks CPUID
for each bit of a table, and XGETBV for the registers that the operating system saves.
"""

from __future__ import annotations

from collections.abc import Mapping

from autosched.cpuid import Bit

_START = "this library needs what this machine's CPU or system lacks:"
_SYSTEM = " registers (saved by the system)"

_NOTHING_TO_ASK = "define private ptr @lib.look_at_cpu() {\n  ret ptr null\n}\n"

_LOOK = """
%lib.bit = type { i32, i32, i32, i32, ptr }
declare ptr @strcat(ptr, ptr)

define private i32 @lib.cpu_word(i32 %leaf, i32 %subleaf, i32 %register) {
  %base = and i32 %leaf, -2147483648
  %m = call { i32, i32, i32, i32 } CPUID(i32 %base, i32 0)
  %most = extractvalue { i32, i32, i32, i32 } %m, 0
  %known = icmp ule i32 %leaf, %most
  %w = call { i32, i32, i32, i32 } CPUID(i32 %leaf, i32 %subleaf)
  %a = extractvalue { i32, i32, i32, i32 } %w, 0
  %b = extractvalue { i32, i32, i32, i32 } %w, 1
  %c = extractvalue { i32, i32, i32, i32 } %w, 2
  %d = extractvalue { i32, i32, i32, i32 } %w, 3
  %is1 = icmp eq i32 %register, 1
  %is2 = icmp eq i32 %register, 2
  %is3 = icmp eq i32 %register, 3
  %ab = select i1 %is1, i32 %b, i32 %a
  %abc = select i1 %is2, i32 %c, i32 %ab
  %abcd = select i1 %is3, i32 %d, i32 %abc
  %found = select i1 %known, i32 %abcd, i32 0
  ret i32 %found
}

define private i32 @lib.saved_registers() {
entry:
  %word = call i32 @lib.cpu_word(i32 1, i32 0, i32 2)
  %bit = and i32 %word, 134217728
  %none = icmp eq i32 %bit, 0
  br i1 %none, label %no, label %ask
no:
  ret i32 0
ask:
  %x = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %low = extractvalue { i32, i32 } %x, 0
  ret i32 %low
}

define private ptr @lib.look_at_cpu() {
entry:
  store i8 0, ptr @lib.missing  ; the child of a fork may look again
  %begun = call ptr @strcat(ptr @lib.missing, ptr @lib.start)
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %lacks = phi i1 [ false, %entry ], [ %lacks1, %next ]
  %more = icmp ult i64 %i, COUNT
  br i1 %more, label %ask, label %system
ask:
  %pleaf = getelementptr %lib.bit, ptr @lib.bits, i64 %i, i32 0
  %psubleaf = getelementptr %lib.bit, ptr @lib.bits, i64 %i, i32 1
  %pregister = getelementptr %lib.bit, ptr @lib.bits, i64 %i, i32 2
  %pmask = getelementptr %lib.bit, ptr @lib.bits, i64 %i, i32 3
  %leaf = load i32, ptr %pleaf
  %subleaf = load i32, ptr %psubleaf
  %register = load i32, ptr %pregister
  %mask = load i32, ptr %pmask
  %word = call i32 @lib.cpu_word(i32 %leaf, i32 %subleaf, i32 %register)
  %set = and i32 %word, %mask
  %lack = icmp eq i32 %set, 0
  br i1 %lack, label %add, label %next
add:
  %pname = getelementptr %lib.bit, ptr @lib.bits, i64 %i, i32 4
  %name = load ptr, ptr %pname
  %added = call ptr @strcat(ptr @lib.missing, ptr %name)
  br label %next
next:
  %lacks1 = phi i1 [ %lacks, %ask ], [ true, %add ]
  %i1 = add i64 %i, 1
  br label %each
system:
  %saved = call i32 @lib.saved_registers()
  %kept = and i32 %saved, REGISTERS
  %enough = icmp eq i32 %kept, REGISTERS
  br i1 %enough, label %done, label %complain
complain:
  %complained = call ptr @strcat(ptr @lib.missing, ptr @lib.system)
  br label %done
done:
  %bad = phi i1 [ %lacks, %system ], [ true, %complain ]
  %text = select i1 %bad, ptr @lib.missing, ptr null
  ret ptr %text
}
"""

_CPUID = 'asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"'


def text_ir(label: str, text: str) -> str:
    """A constant that holds `text` as a C string."""
    data = "".join(f"\\{byte:02X}" for byte in text.encode()) + "\\00"
    return f'@{label} = private constant [{len(text.encode()) + 1} x i8] c"{data}"'


def cpu_ir(features: Mapping[str, Bit], registers: int) -> str:
    """The assembly that checks the bits in `features` and the bits `registers` of XCR0."""
    if not features and not registers:
        return _NOTHING_TO_ASK
    room = sum(len(name) + 1 for name in features) + len(_START) + len(_SYSTEM) + 1
    lines = [text_ir(f"lib.feature.{i}", f" {name}") for i, name in enumerate(features)]
    lines += [text_ir("lib.start", _START), text_ir("lib.system", _SYSTEM)]
    lines.append(f"@lib.missing = private global [{room} x i8] zeroinitializer")
    bits = ", ".join(_bit(i, bit) for i, bit in enumerate(features.values()))
    lines.append(f"@lib.bits = private constant [{len(features)} x %lib.bit] [{bits}]")
    look = _LOOK.replace("CPUID", _CPUID).replace("REGISTERS", str(registers))
    return look.replace("COUNT", str(len(features))) + "\n".join(lines) + "\n"


def _bit(number: int, bit: Bit) -> str:
    mask = 1 << bit.bit
    words = (bit.leaf, bit.subleaf, bit.register, mask)
    signed = ", ".join(f"i32 {word - (1 << 32) if word >= 1 << 31 else word}" for word in words)
    return f"%lib.bit {{ {signed}, ptr @lib.feature.{number} }}"
