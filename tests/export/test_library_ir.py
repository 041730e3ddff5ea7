"""The library's own part beside kernels of any name."""

from __future__ import annotations

import re

import pytest

from autosched.codegen.llvm_compile import compile_object
from autosched.codegen.llvm_tiles import NO_TILES
from autosched.cpuid import BITS
from autosched.export.library_ir import Entry, Shapes, exported, library_ir
from autosched.target import cpu_target

NAMES = ("relax", "now", "ready", "look", "thread", "state", "blocks", "worker", "call", "pool")


def test_kernels_may_have_any_name() -> None:
    """What the library defines for itself cannot be what a function of a user is called."""
    entries = [Entry(name, f"autosched_kernel_{name}", 2, 2) for name in NAMES]
    shapes = [Shapes("start", [1, 1], [("now", [[4], [4]]), ("look", [[5], [5]])])]
    text = library_ir("lib", entries, shapes, BITS, 6)
    defined = re.findall(r"^(?:define [^@]*)?@([\w.]+)(?= ?[(=])", text, flags=re.M)
    public = exported("lib", entries, shapes)
    assert set(public) <= set(defined)
    own = {name for name in defined if name not in public}
    assert "run.relax" in own and "autosched_worker" in own
    assert [n for n in own if "." not in n and not n.startswith("autosched_")] == []
    assert not own & {entry.kernel for entry in entries}
    if cpu_target().triple.startswith("x86_64"):
        compile_object(text, cpu_target(1), "light")


def test_a_refusal_of_tiles_is_no_assertion() -> None:
    text = library_ir("lib", [], [], {}, 0)
    assert f"i32 {NO_TILES}, label %is.{-NO_TILES}" in text
    message = re.search(rf'@lib\.message\.{-NO_TILES} = .* c"(.*)\\00"', text)
    assert message is not None
    words = bytes.fromhex(message[1].replace("\\", "")).decode()
    assert words.startswith("the CPU has no AMX tiles")


@pytest.mark.parametrize(("features", "registers"), [({}, 0), ({}, 6), (BITS, 0)])
def test_what_is_asked_of_the_cpu(features: dict[str, object], registers: int) -> None:
    text = library_ir("lib", [], [], {name: BITS[name] for name in features}, registers)
    assert ("cpuid" in text) == bool(features or registers)
    if cpu_target().triple.startswith("x86_64"):
        compile_object(text, cpu_target(1), "light")
