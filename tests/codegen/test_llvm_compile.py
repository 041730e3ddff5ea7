"""Which of LLVM's passes run, and with which of its options code is generated."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import pytest

from autosched.codegen.llvm_compile import LARGE, assembly, compile_object, object_of, optimized
from autosched.target import cpu_target

WIDE = replace(cpu_target(2), vector_bytes=64)
NARROW = replace(WIDE, vector_bytes=32)
EXPLICIT = "; innermost loops of scalars: 0\n"
STRAIGHT = f"""{EXPLICIT}define i32 @f(i32 %a) {{
  %b = add i32 %a, 0
  ret i32 %b
}}
"""
BRANCHED = f"""{EXPLICIT}define i32 @f(i32 %a, i1 %c, ptr %p) {{
  br i1 %c, label %then1, label %join2
then1:
  call void @g()
  br label %join2
join2:
  %b = add i32 %a, 0
  ret i32 %b
}}
declare void @g()
"""
LOOP = f"""{EXPLICIT}define void @f(ptr %p) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
  %q = getelementptr <16 x float>, ptr %p, i64 %i
  store <16 x float> zeroinitializer, ptr %q, align 4
  %n = add nuw nsw i64 %i, 1
  %t = icmp slt i64 %n, 8
  br i1 %t, label %loop, label %done, !llvm.loop !0
done:
  ret void
}}
!0 = distinct !{{!0, !1}}
!1 = !{{!"llvm.loop.unroll.HINT"}}
"""


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options of LLVM that were set, in order."""
    found: list[str] = []
    monkeypatch.setattr(llvm, "set_option", lambda _, option: found.append(option))
    return found


def test_instructions_are_combined_where_branches_are() -> None:
    assert "add i32" in optimized(STRAIGHT, WIDE)
    assert "add i32" not in optimized(BRANCHED, WIDE)


def test_loops_are_unrolled_where_the_text_asks_for_it() -> None:
    assert "phi" not in optimized(LOOP.replace("HINT", "full"), WIDE)
    assert "phi" in optimized(LOOP.replace("HINT", "disable"), WIDE)


def test_long_modules_are_unrolled_where_the_text_asks_for_it_alone() -> None:
    """Unrolling 2,000 lines of dependent reductions took 50 s."""
    doubled = "  %v = load <16 x float>, ptr %q\n  %w = fadd <16 x float> %v, %v\n"
    text = LOOP.replace("  store <16 x float> zeroinitializer", f"{doubled}  store <16 x float> %w")
    plain = text.replace("HINT", "other")
    assert "phi" not in optimized(plain, WIDE, "full")
    assert "phi" in optimized(plain + "\n" * LARGE, WIDE, "full")
    assert "phi" not in optimized(text.replace("HINT", "full") + "\n" * LARGE, WIDE, "full")


def test_loop_strength_reduction_is_left_out_for_wide_vectors_alone(options: list[str]) -> None:
    compile_object(STRAIGHT, NARROW)
    assembly(STRAIGHT, NARROW)
    assert options == []
    compile_object(STRAIGHT, WIDE)
    assert options == ["-disable-lsr=true", "-disable-lsr=false"]
    assembly(STRAIGHT, WIDE)
    assert options == 2 * ["-disable-lsr=true", "-disable-lsr=false"]


def _maxima(number: int) -> str:
    """A loop of 8 rounds with so many maxima one after the other; NaN are handed on."""
    lines = [
        "; innermost loops of scalars: 1",
        "define void @f(ptr %p) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %n, %loop ]",
        f"  %m0 = phi <4 x float> [ zeroinitializer, %entry ], [ %m{number}, %loop ]",
    ]
    for k in range(number):
        lines += [
            f"  %q{k} = getelementptr <4 x float>, ptr %p, i64 {k}",
            f"  %v{k} = load <4 x float>, ptr %q{k}, align 4",
            f"  %c{k} = fcmp ogt <4 x float> %v{k}, %m{k}",
            f"  %s{k} = select <4 x i1> %c{k}, <4 x float> %v{k}, <4 x float> %m{k}",
            f"  %o{k} = fcmp ord <4 x float> %v{k}, %v{k}",
            f"  %m{k + 1} = select <4 x i1> %o{k}, <4 x float> %s{k}, <4 x float> %v{k}",
        ]
    lines += [
        "  %n = add nuw nsw i64 %i, 1",
        "  %t = icmp slt i64 %n, 8",
        "  br i1 %t, label %loop, label %done",
        "done:",
        f"  store <4 x float> %m{number}, ptr %p, align 4",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def test_many_maxima_one_after_the_other_are_compiled_in_no_time() -> None:
    """LLVM 22 took it for a checksum, and twice as long for each more of them."""
    program = (
        "import sys; from autosched.codegen.llvm_compile import compile_object\n"
        "from autosched.target import cpu_target\n"
        "compile_object(sys.stdin.read(), cpu_target(1), 'full')"
    )
    subprocess.run(
        [sys.executable, "-c", program], input=_maxima(64), text=True, check=True, timeout=300
    )


def test_llvm_options_are_put_back_after_a_failure(options: list[str]) -> None:
    broken: Any = "no module"
    with pytest.raises(ctypes.ArgumentError, match="LLVMModule"):
        object_of(broken, WIDE)
    assert options == ["-disable-lsr=true", "-disable-lsr=false"]


@pytest.mark.parametrize("kinds", [("i16", "i64"), ("i8", "i32"), ("i8", "i16")])
def test_what_a_signed_number_becomes_without_a_sign_keeps_its_bits(
    kinds: tuple[str, str],
) -> None:
    """Beside another use of the number LLVM 22 makes vectors of its own of 32 bits, say."""
    few, many = kinds
    text = f"""; innermost loops of scalars: 1
define void @f(ptr noalias %a, ptr noalias %o, ptr noalias %p) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
  %q = getelementptr {few}, ptr %a, i64 %i
  %v = load {few}, ptr %q
  %w = sext {few} %v to {many}
  %c = uitofp {many} %w to float
  %r = getelementptr float, ptr %o, i64 %i
  store float %c, ptr %r
  %s = getelementptr {many}, ptr %p, i64 %i
  store {many} %w, ptr %s
  %n = add i64 %i, 1
  %d = icmp eq i64 %n, 16
  br i1 %d, label %done, label %loop
done:
  ret void
}}
"""
    found = optimized(text, WIDE, "full")
    converted = [line.split("uitofp ")[1] for line in found.splitlines() if "uitofp" in line]
    assert converted and all(re.match(rf"(<\d+ x )?{many}>? ", line) for line in converted)
