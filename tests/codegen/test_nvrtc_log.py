"""Resources and errors in logs as NVRTC 13.5 wrote them."""

from __future__ import annotations

import pickle

import pytest

from autosched.codegen.nvrtc_log import Resources, compile_error, resources

TWO_KERNELS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
ptxas         .     48 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 48 bytes cumulative stack size
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 4096 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 21.214 ms
"""
SOURCE = "one\ntwo\nthree\nfour\n"


def test_resources_of_each_kernel() -> None:
    assert resources(TWO_KERNELS) == {
        "second": Resources(255, 48, 12, 16, 0),
        "first": Resources(10, 0, 0, 0, 4096),
    }


def test_what_the_log_does_not_say_is_not_zero() -> None:
    log = "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
    assert resources(log) == {"k": Resources(None, None, None, None, None)}
    assert resources("") == {}


def test_an_error_names_line_and_statement() -> None:
    log = "kernel.cu(2): warning #177-D: unused\n\nkernel.cu(3): error: identifier x\n  three\n"
    error = compile_error(log, SOURCE, "NVRTC_ERROR_COMPILATION", {3: "for k / C[i] = x"})
    assert (error.kind, error.line, error.statement) == ("error", 3, "for k / C[i] = x")
    assert str(error) == (
        "nvrtc: line 3: identifier x\n  2 | two\n> 3 | three\n  4 | four\n"
        "made from: for k / C[i] = x"
    )


def test_a_catastrophic_error_on_the_first_line() -> None:
    log = 'kernel.cu(1): catastrophic error: cannot open source file "x.h"\n'
    error = compile_error(log, SOURCE, "NVRTC_ERROR_COMPILATION", {})
    assert error.line == 1
    assert str(error).endswith('file "x.h"\n> 1 | one\n  2 | two')


@pytest.mark.parametrize(
    ("log", "status", "kind", "text"),
    [
        (
            " ptxas error   : Entry function 'k' uses too much shared data (0x40000 bytes, 0xc000"
            " max)\n",
            "NVRTC_ERROR_COMPILATION",
            "illegal",
            "nvrtc: Entry function 'k' uses too much shared data (0x40000 bytes, 0xc000 max)",
        ),
        (
            "ptxas application ptx input, line 45; error   : Feature 'cp.async' requires .target"
            " sm_80 or higher\n",
            "NVRTC_ERROR_COMPILATION",
            "error",
            "nvrtc: Feature 'cp.async' requires .target sm_80 or higher",
        ),
        ("", "NVRTC_ERROR_OUT_OF_MEMORY", "memory", "nvrtc: NVRTC_ERROR_OUT_OF_MEMORY"),
        (
            "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n",
            "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
            "environment",
            "nvrtc: nvrtc: error: failed to open libnvrtc-builtins.so.13.0.",
        ),
    ],
)
def test_kinds_of_errors_without_a_line(log: str, status: str, kind: str, text: str) -> None:
    error = compile_error(log, SOURCE, status, {})
    assert (error.kind, error.line, str(error)) == (kind, None, text)


def test_an_error_crosses_a_process_boundary() -> None:
    error = compile_error("kernel.cu(2): error: bad\n", SOURCE, "", {2: "C[i]"})
    other = pickle.loads(pickle.dumps(error))
    assert (str(other), other.kind, other.line, other.statement) == (
        str(error),
        "error",
        2,
        "C[i]",
    )
