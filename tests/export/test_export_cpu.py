"""A library of CPU kernels, as its users meet it: Python with NumPy alone, and C."""

from __future__ import annotations

import copy
import ctypes
import errno
import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.driver import build_steps
from autosched.errors import CompileError, ConfigError
from autosched.export import cpu as exporting
from autosched.export import link
from autosched.export.c_files import Function, c_names, cmake, example
from autosched.measure.records import Record, read_log
from autosched.runtime.array_checks import element_of
from autosched.runtime.artifact import ParamSpec
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.session.export import ExportOptions, export
from autosched.state.steps import steps_from_json
from autosched.task import Task
from autosched.te.intrin.registry import available
from kit.exporting import cuda_record, matmul, record, tiled

needs_linker = pytest.mark.skipif(link.linker() is None, reason="no C compiler links here")
PACKED = "pre-transformed"
SOFTMAX = Task.from_workload("softmax", M=16, N=32)
RECORDS = [record(matmul(m, threads=2), tiled(m)) for m in (64, 48)] + [record(SOFTMAX)]


def test_names_of_arrays_in_c() -> None:
    """`1a_` is no name in C, and an empty one ended in an IndexError."""
    names = ["A", "for", "1a", "a b", "a_b", "\u00e9", "", ""]
    found = c_names([ParamSpec(name, "float32", (4,)) for name in names])
    assert found == ["A", "for_", "_1a", "a_b", "a_b2", "_", "_2", "_3"]
    assert all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in found)


def test_names_of_arrays_that_c_or_its_headers_use() -> None:
    """Keywords of C++, macros and types; what only looks like them stays."""
    names = ["namespace", "_Bool", "uint8_t", "NULL", "I", "INT8_MAX", "linux", "__LINE__", "J"]
    found = c_names([ParamSpec(name, "float32", (4,)) for name in names])
    assert found == [*(f"{name}_" for name in names[:-1]), "J"]


def module(path: Path) -> ModuleType:
    """A module of a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two products, one chosen by shape with a third, and a softmax."""
    place = tmp_path_factory.mktemp("exported") / "new" / "out"
    done = export(RECORDS, place, ExportOptions(dispatch=True))
    assert {path.name for path in done.files} == {path.name for path in place.iterdir()}
    assert done.notes == ()
    return place


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import kernels, numpy as np
assert not {"autosched", "llvmlite", "ml_dtypes"} & set(sys.modules)
given = np.load(sys.argv[2])
for way in (kernels.matmul, kernels.matmul_64x32x16):
    assert (way(given["a"], given["b"]) == given["c"]).all()
assert (kernels.matmul(given["a"][:48], B=given["b"]) == given["c"][:48]).all()
out = kernels.empty((16, 32))
assert kernels.softmax(given["b"], out) is None and (out == given["s"]).all()
import os
import pickle
child = os.fork()
if child == 0:
    os._exit(not (kernels.matmul(given["a"], given["b"]) == given["c"]).all())
assert os.waitpid(child, 0)[1] == 0
print("same", len(os.listdir("/proc/self/task")) if sys.platform == "linux" else "")
"""


@needs_linker
@pytest.mark.parametrize("threads", ["", "1", "3", "many", "3e2"])
def test_a_process_with_numpy_alone_computes_the_same(
    folder: Path, tmp_path: Path, threads: str
) -> None:
    task = matmul(64, threads=2)
    random = np.random.default_rng(0)
    a, b = random.random((64, 16), np.float32), random.random((16, 32), np.float32)
    c = load(build_steps(task.dag, tiled(64), task.target))(a, b)
    s = load(build_steps(SOFTMAX.dag, (), SOFTMAX.target))(b)
    np.savez(tmp_path / "given.npz", a=a, b=b, c=c, s=s)
    environment = {**os.environ, "AUTOSCHED_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, str(folder), str(tmp_path / "given.npz")],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith("same"), done.stderr
    if threads.isdecimal() and sys.platform == "linux":
        assert done.stdout.split() == ["same", threads]
    if threads == "3e2" and sys.platform == "linux":  # no number of threads: as if it were not set
        assert int(done.stdout.split()[1]) <= 2


FORKING = """
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "twice.h"
static float *x;
static void *call(void *y) {
  for (;;) twice(x, y);
  return NULL;
}
int main(void) {
  pthread_t thread;
  float *y = calloc(20000, sizeof *y);
  x = calloc(20000, sizeof *x);
  for (int i = 0; i < 6; i++) pthread_create(&thread, NULL, call, calloc(20000, sizeof *y));
  for (int i = 0, status; i < 400; i++) {
    pid_t child = fork();
    if (!child) {
      alarm(5);
      _exit(twice(x, y));
    }
    if (waitpid(child, &status, 0) != child || status) _exit(WIFSIGNALED(status) ? 2 : 1);
  }
  _exit(0);
}
"""


@needs_linker
@pytest.mark.skipif(sys.platform != "linux", reason="fork and alarm")
def test_a_forked_child_of_threads_that_compute(tmp_path: Path) -> None:
    """One of 20 waited for ever for a lock of a thread that only its parent has."""
    (tmp_path / "two.py").write_text(
        "from autosched import te\n\n\n"
        "def twice(n):\n"
        "    A = te.placeholder((n,), name='A')\n"
        "    B = te.compute((n,), lambda i: A[i] + 1, name='B')\n"
        "    return A, te.compute((n,), lambda i: B[n - 1 - i] * 2, name='C')\n"
    )
    out, program = tmp_path / "out", tmp_path / "program"
    with autosched.trusting():
        export([record(Task.from_python(f"{tmp_path / 'two.py'}:twice", n=20000))], out)
    (tmp_path / "program.c").write_text(FORKING)
    cc = link.linker()
    assert cc is not None
    where = [f"-I{out}", f"-L{out}", "-ltwice", "-lpthread", f"-Wl,-rpath,{out}"]
    words = [*cc, "-O1", str(tmp_path / "program.c"), "-o", str(program), *where]
    subprocess.run(words, check=True)
    assert subprocess.run([str(program)], timeout=120).returncode == 0


@needs_linker
def test_the_example_in_c_prints_the_same(folder: Path, tmp_path: Path) -> None:
    cc = link.linker()
    assert cc is not None
    program = tmp_path / "example"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    where = [f"-I{folder}", f"-L{folder}", "-lkernels", f"-Wl,-rpath,{folder}"]
    subprocess.run(
        [*cc, *flags, str(folder / "kernels_example.c"), "-o", str(program), *where], check=True
    )
    words = [str(program), "softmax_16x32"]  # that one only
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["softmax_16x32"]
    done = subprocess.run([*words, "softmax"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")  # it was 0, as if all were well
    assert done.stderr.startswith("softmax: no such kernel; expected ")
    expected = {"matmul_64x32x16", "matmul_48x32x16", "softmax_16x32"}
    assert expected <= set(done.stderr.rpartition("expected ")[2].strip().split(", "))
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    sums = {
        line.split()[0]: float(line.split()[2].rstrip(",")) for line in done.stdout.splitlines()
    }
    kernels = module(folder / "kernels.py")
    for name in ("matmul_64x32x16", "matmul_48x32x16", "softmax_16x32"):
        function = getattr(kernels, name)
        inputs = [
            (np.arange(np.prod(p.shape)) % 13).astype(np.float32).reshape(p.shape)
            for p in function.parameters
            if not p.is_output
        ]
        assert sums[name] == pytest.approx(
            float(function(*inputs).sum(dtype=np.float64)), rel=1e-12
        )


@needs_linker
def test_a_function_in_c_chooses_by_shape(folder: Path) -> None:
    library = ctypes.CDLL(str(folder / "libkernels.so"))
    kernels = module(folder / "kernels.py")
    a, b = np.ones((48, 16), np.float32), np.ones((16, 32), np.float32)
    c = np.zeros((48, 32), np.float32)

    def call(*shapes: Sequence[int]) -> int:
        arguments = []
        for array, shape in zip((a, b, c), shapes, strict=True):
            arguments += [ctypes.c_void_p(array.ctypes.data), (ctypes.c_int64 * 2)(*shape)]
        return int(library.matmul(*arguments))

    right = a.shape, b.shape, c.shape
    for array in range(3):
        for axis in range(2):
            shapes = [list(shape) for shape in right]
            shapes[array][axis] -= 1
            assert call(*shapes) == -4
    assert (c == 0).all()
    assert call(*right) == 0
    assert (c == 16).all()
    library.kernels_message.restype = ctypes.c_char_p
    assert library.kernels_message(-4) == b"there is no kernel for these shapes"
    with pytest.raises(
        ValueError, match=r"no kernel for the shapes \(40, 16\), \(16, 32\) of A, B; there are \(64"
    ):
        kernels.matmul(a[:40], b)
    assert kernels.matmul.kernel_for(a, b) is kernels.matmul_48x32x16
    assert kernels.names() == [
        "matmul_64x32x16",
        "matmul_48x32x16",
        "softmax_16x32",
        "matmul",
        "softmax",
    ]


@needs_linker
def test_arguments_that_do_not_fit(folder: Path) -> None:
    kernels = module(folder / "kernels.py")
    a, b, c = (np.ones(s, np.float32) for s in ((64, 16), (16, 32), (64, 32)))
    kernel = kernels.matmul_64x32x16
    refusals = {
        r"argument 1 \(A\) must have dtype float32, found float64": (a.astype(float), b, c),
        r"argument 2 \(B\) must have shape \(16, 32\), found \(64, 16\)": (a, a, c),
        r"argument 3 \(C\) must be contiguous": (a, b, np.ones((32, 64), np.float32).T),
        r"argument 3 \(C\) is written by the kernel but shares": (a, c[:16], c),
        r"argument 1 \(A\) must be a NumPy array": ([1], b, c),
        r"argument 2 \(B\) is a masked array": (a, np.ma.array(b, mask=b > 0), c),
        r"takes 3 arguments \(A, B, C\), found 1": (a,),
    }
    for says, given in refusals.items():
        with pytest.raises(ValueError, match=f"matmul_64x32x16:? {says}"):
            kernel(*given)
    assert repr(kernel).startswith("<kernel matmul_64x32x16(A: float32[64, 16], B: ")


@needs_linker
def test_outputs_that_are_left_out_are_made_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once 30 us for each call: every argument was looked at in Python."""
    kernels = module(folder / "kernels.py")
    a, b, c = (np.ones(s, np.float32) for s in ((64, 16), (16, 32), (64, 32)))
    monkeypatch.setattr(kernels.Kernel, "_general", lambda self, *given: pytest.fail("looked at"))
    for kernel in (kernels.matmul_64x32x16, kernels.matmul):
        c[:] = 0
        assert kernel(a, b, out=c) is None
        made = kernel(a, b)
        assert (c == 16).all() and (made == 16).all() and made.ctypes.data % 64 == 0


@needs_linker
def test_arguments_that_no_choice_can_be_made_by(folder: Path) -> None:
    choice = module(folder / "kernels.py").matmul
    a, b = np.ones((64, 16), np.float32), np.ones((16, 32), np.float32)
    refusals = {
        r"argument 1 \(A\) must be an array, found list": (a.tolist(), b),
        r"argument 2 \(B\) must be an array, found NoneType": (a, None),
        r"takes the inputs A, B, found 1 of them": (a,),
        r"no kernel for the shapes \(16, 32\), \(64, 16\) of A, B; there are": (b, a),
    }
    for says, given in refusals.items():
        with pytest.raises(ValueError, match=f"matmul: {says}"):
            choice(*given)


@needs_linker
def test_kernels_are_pickled_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = module(folder / "kernels.py")
    monkeypatch.setitem(sys.modules, kernels.__name__, kernels)
    for function in (kernels.matmul, kernels.softmax):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function


@needs_linker
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "kernels.json does not describe the library: FileNotFoundError"),
        ("{", "kernels.json does not describe the library: JSONDecodeError"),
        ("{}", "kernels.json does not describe the library: KeyError: 'library'"),
        ("[]", "kernels.json does not describe the library: TypeError"),
        ('{"library": "none.so"}', "none.so cannot be loaded"),
        ('{"library": "libkernels.so"}', "is not the library of kernels.json: KeyError: 'name'"),
        ('{"library": "libkernels.so", "name": "x"}', "AttributeError: .* undefined symbol"),
    ],
)
def test_what_does_not_belong_together_is_not_imported(
    folder: Path, tmp_path: Path, text: str | None, words: str
) -> None:
    shutil.copytree(folder, tmp_path / "out")
    (tmp_path / "out" / "kernels.json").unlink()
    if text is not None:
        (tmp_path / "out" / "kernels.json").write_text(text)
    with pytest.raises(ImportError, match=f"{words}.*export it again, or copy all"):
        module(tmp_path / "out" / "kernels.py")


@needs_linker
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (0, "export it again"),
        (os.ST_NOEXEC, r"no code runs on its file system \(noexec\): copy the"),
    ],
)
def test_a_file_system_that_runs_nothing_is_named(
    folder: Path, tmp_path: Path, flags: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "out")
    (tmp_path / "out" / "libkernels.so").write_bytes(b"as good as not there")
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    with pytest.raises(ImportError, match=rf"libkernels\.so cannot be loaded: .*; {words}"):
        module(tmp_path / "out" / "kernels.py")


@needs_linker
@pytest.mark.parametrize("left", [100, 5000, -1])
def test_a_library_that_is_cut_short_ends_no_process(
    folder: Path, tmp_path: Path, left: int
) -> None:
    shutil.copytree(folder, tmp_path / "out")
    library = tmp_path / "out" / "libkernels.so"
    library.write_bytes(library.read_bytes()[:left])
    with pytest.raises(ImportError, match=r"libkernels\.so is cut short; export it again"):
        module(tmp_path / "out" / "kernels.py")


@needs_linker
def test_a_cpu_that_lacks_something_is_refused(tmp_path: Path) -> None:
    features = matmul(8).target.features + ",+xop,+tbm"
    export([record(matmul(8, features=features))], tmp_path / "out")
    with pytest.raises(ImportError, match=r"needs what this machine's CPU .* lacks: xop tbm"):
        module(tmp_path / "out" / "matmul.py")
    library = ctypes.CDLL(str(tmp_path / "out" / "libmatmul.so"))
    out = np.zeros((8, 32), np.float32)
    given = [np.ones((8, 16), np.float32), np.ones((16, 32), np.float32), out]
    assert library.matmul(*(ctypes.c_void_p(x.ctypes.data) for x in given)) == -3
    assert (out == 0).all()
    assert " xop, tbm" in (tmp_path / "out" / "matmul.h").read_text()


@needs_linker
def test_a_library_that_was_replaced_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    export([record(matmul(8))], tmp_path)
    module(tmp_path / "matmul.py")
    export([record(matmul(9))], tmp_path)
    with pytest.raises(
        ImportError, match=r"from another build \(\w+\) than matmul.json .*restart Python"
    ):
        module(tmp_path / "matmul.py")


def test_a_build_is_its_module_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of autosched writes another module, which its own library belongs to."""
    monkeypatch.setattr(exporting, "linker", lambda: None)
    builds = []
    for change in ("", "", "# changed"):
        monkeypatch.setattr(exporting, "_DOCSTRING", exporting._DOCSTRING + change)
        export([record(matmul(8))], tmp_path)
        builds.append(json.loads((tmp_path / "matmul.json").read_text())["build"])
    assert builds[0] == builds[1] != builds[2]


@needs_linker
def test_inputs_in_another_order(tmp_path: Path) -> None:
    steps = [["SP", 2, 1, 16, [8], 1], ["RE", 2, [0, 1, 3, 2]], ["AN", 2, 0, 3]]
    task = Task.from_workload("matmul", M=16, N=16, K=16, layout_rewrite=PACKED)
    export([record(task, steps_from_json(steps))], tmp_path / "out")
    kernel = module(tmp_path / "out" / "matmul.py").matmul
    a, b = (np.arange(k, 256 + k, dtype=np.float32).reshape(16, 16) % 7 for k in range(2))
    np.testing.assert_array_equal(kernel(*kernel.prepare(a, b)), a @ b)
    with pytest.raises(ValueError, match=r"\(B\) must have shape .*; kernel.prepare stores it so"):
        kernel(a, b)
    assert (
        "stored in another order: B: 16k16j -> 2j16k8j"
        in (tmp_path / "out" / "matmul.h").read_text()
    )


@needs_linker
def test_weights_that_an_instruction_packs(tmp_path: Path) -> None:
    types = {"in_dtype": "uint8", "weight_dtype": "int8"}
    args: dict[str, Any] = {"M": 16, "N": 64, "K": 64, **types, "layout_rewrite": PACKED}
    task = Task.from_workload("dense_requantised", **args)
    known = available(task.target)
    if not any(it.a.held.name == "uint8" and it.b.held.name == "int8" for it in known):
        pytest.skip("no instruction takes uint8 and int8 as they are here")
    options = SearchOptions(space="autosched")
    context = Context(task.dag, task.target.hardware, False, options, known)
    steps = SearchSpace.of(context).sample(np.random.default_rng(0), 1)[0]
    export([record(task, steps)], tmp_path)
    kernel = module(tmp_path / "dense_requantised.py").dense_requantised
    inputs = task.inputs()
    with pytest.raises(ValueError, match=r"\(W\) must have shape .*; kernel.prepare stores it so"):
        kernel(*inputs)
    (want,) = task.reference(inputs)
    np.testing.assert_array_equal(kernel(*kernel.prepare(*inputs)), want)


BITS = """
import sys
sys.modules["ml_dtypes"] = None
sys.path.insert(0, sys.argv[1])
import add_relu, numpy as np
a, b = np.load(sys.argv[2])
print(add_relu.add_relu(a, b).tobytes().hex())
"""


@needs_linker
def test_types_that_numpy_does_not_have(tmp_path: Path) -> None:
    """They are of ml_dtypes; where that is missing their bits are taken and returned."""
    task = Task.from_workload("add_relu", M=2, N=4, dtype="bfloat16")
    export([record(task)], tmp_path)
    a, b = task.inputs()
    (want,) = task.reference([a, b])
    kernel = module(tmp_path / "add_relu.py").add_relu
    for result in (kernel(a, b), kernel(a.view(np.uint16), b.view(np.uint16))):
        np.testing.assert_array_equal(result, want)
    np.save(tmp_path / "given.npy", np.stack([a, b]).view(np.uint16))
    given = [str(tmp_path), str(tmp_path / "given.npy")]
    done = subprocess.run(
        [sys.executable, "-I", "-c", BITS, *given], capture_output=True, text=True
    )
    assert done.stdout.strip() == want.tobytes().hex(), done.stderr
    assert "uint16_t *" in (tmp_path / "add_relu.h").read_text()


def example_of(task: Task, folder: Path) -> str:
    """What the example of an exported kernel prints."""
    cc = link.linker()
    assert cc is not None
    export([record(task)], folder)
    source, program = folder / "kernel_example.c", folder / "example"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow"]
    where = [f"-I{folder}", f"-L{folder}", "-lkernel", f"-Wl,-rpath,{folder}"]
    subprocess.run([*cc, *flags, str(source), "-o", str(program), *where], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


@needs_linker
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_example_computes_with_floats_that_are_passed_as_bits(
    tmp_path: Path, dtype: str
) -> None:
    """They were all 0, and the sum was of the bits."""
    task = Task.from_expression("C[i] = A[i] * B[i] - 8", {"A": (20,), "B": (20,)}, dtype=dtype)
    numbers = (np.arange(20) % 13).astype(element_of(dtype))
    (want,) = task.reference([numbers, numbers])
    said = example_of(task, tmp_path)
    assert float(said.split()[2].rstrip(",")) == want.astype(np.float64).sum() > 0


@needs_linker
def test_the_example_reads_inside_of_tables(tmp_path: Path) -> None:
    """Of four numbers it read the thirteenth."""
    task = Task.from_expression(
        "C[i] = A[I[i]]", {"A": (4,), "I": (26,)}, dtype={"A": "float32", "I": "int32"}
    )
    assert example_of(task, tmp_path).startswith("kernel sum 37,")  # 6 times 0 to 3, 0, 1
    assert "i % 4)" in (tmp_path / "kernel_example.c").read_text()


@needs_linker
def test_names_that_c_cannot_say(tmp_path: Path) -> None:
    cc = link.linker()
    assert cc is not None
    shapes = {"int": (4,), "sum": (4,), "λ": (4,), "β": (4,)}
    task = Task.from_expression("status[i] = int[i] + sum[i] + λ[i] + β[i]", shapes)
    export([record(task)], tmp_path)
    header = (tmp_path / "kernel.h").read_text()
    names = "const float *int_, const float *sum, const float *_, const float *_2, float *status"
    assert f"int kernel({names});" in header
    source, program = tmp_path / "kernel_example.c", tmp_path / "example"
    where = [f"-I{tmp_path}", f"-L{tmp_path}", "-lkernel", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([*cc, "-Werror", str(source), "-o", str(program), *where], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kernel sum 24,")


PLUS_ONE = """
def {name}(n):
    a = te.placeholder((n,), name="A")
    return a, te.compute((n,), lambda i: a[i] + 1.0, name="B")
"""


def plus_one(folder: Path, names: Sequence[str], target: str = "cpu") -> list[Record]:
    """A record of a function of each name that adds 1 to eight numbers."""
    source = folder / "ops.py"
    functions = "".join(PLUS_ONE.format(name=name) for name in names)
    source.write_text("from autosched import te\n" + functions)
    workloads = [{"python": f"{source}:{name}", "args": {"n": 8}} for name in names]
    return [record(Task.from_json_workload(workload, target)) for workload in workloads]


def accepts(command: Sequence[str], header: Path) -> bool:
    """Whether a compiler takes a program that includes C's headers and then this one."""
    standard = ("complex", "errno", "math", "stdio", "stdlib", "string", "time")
    lines = [f"#include <{name}.h>" for name in standard] + [f'#include "{header.name}"']
    program = header.with_suffix(".c")
    program.write_text("\n".join([*lines, "int main(void) { return 0; }", ""]))
    flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{header.parent}", str(program)]
    return subprocess.run([*command, *flags]).returncode == 0


FUNCTIONS = ["len", "max", "map", "ValueError", "namespace", "operator", "linux", "NULL", "copy"]


@needs_linker
def test_names_of_functions_that_c_or_python_use(tmp_path: Path) -> None:
    """A kernel called `len` was called where the module asks for a length, until no stack was left.

    Headers with `namespace` were none of C++, with `linux` none of GNU's C.
    """
    out = tmp_path / "out"
    with autosched.trusting():
        export(plus_one(tmp_path, FUNCTIONS), out)
    kernels = module(out / "kernels.py")
    assert kernels.names() == [*(f"kernel_{name}" for name in FUNCTIONS[:-1]), "copy"]
    for name in kernels.names():
        kernel = getattr(kernels, name)
        assert (kernel(A=np.ones(8, np.float32)) == 2).all()
        with pytest.raises(ValueError, match=r"must have shape \(8\), found \(3,\)"):
            kernel(np.ones(3, np.float32))
    cc = link.linker()
    assert cc is not None
    assert accepts(cc, out / "kernels.h") and accepts([*cc, "-std=c99"], out / "kernels.h")
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is not None:
        assert all(accepts([compiler, "-x", "c++", f"-std=c++{year}"], out / "kernels.h")
                   for year in (11, 17, 20))  # fmt: skip


EXAMPLES_OWN = [
    *("now", "aligned", "wanted", "status", "calls", "start", "i", "array_A", "call_now", "a__b"),
    *("count", "names_", "kernels", "most", "problem", "t", "p", "number", "numbers"),
]


@needs_linker
def test_kernels_called_as_what_the_example_uses(tmp_path: Path) -> None:
    """`now` was another type of function than the header's, `status` was a variable."""
    out = tmp_path / "out"
    with autosched.trusting():
        export(plus_one(tmp_path, EXAMPLES_OWN), out, ExportOptions(name="own"))
    assert module(out / "own.py").names() == EXAMPLES_OWN
    cc = link.linker()
    assert cc is not None
    where = [f"-I{out}", f"-L{out}", "-lown", f"-Wl,-rpath,{out}", "-o", str(out / "example")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*cc, *flags, str(out / "own_example.c"), *where], check=True)
    done = subprocess.run([str(out / "example")], capture_output=True, text=True, check=True)
    lines = [line.split(",")[0] for line in done.stdout.splitlines()]
    assert lines == [f"{name} sum 36" for name in EXAMPLES_OWN]


def test_the_example_calls_its_own_by_their_usual_names() -> None:
    arrays = (ParamSpec("A", "float32", (4,)), ParamSpec("B", "float32", (4,), is_output=True))
    text = example("lib", [Function("softmax", "a softmax", arrays)])
    for line in ("static double now(void) {", "int status = softmax(array_A, array_B);"):
        assert line in text
    assert 'wanted("softmax", count, names) && call_softmax()' in text


C_NAMES = ["FILE", "EIO", "clock_t", "M_PI", "CLOCK_REALTIME", "SEEK_SET", "uint", "va_list"]
OURS = ["autosched_pool", "AUTOSCHED_KERNELS_H", "autosched_kernel_now"]


@needs_linker
def test_kernels_called_as_what_headers_and_the_library_use(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with autosched.trusting():
        export(plus_one(tmp_path, [*C_NAMES, *OURS]), out)
    assert module(out / "kernels.py").names() == [f"kernel_{name}" for name in C_NAMES + OURS]
    cc = link.linker()
    assert cc is not None and accepts([*cc, "-D_GNU_SOURCE"], out / "kernels.h")


@pytest.mark.parametrize("name", ["own_problem", "own_message", "own_build", "own_run_relax"])
def test_kernels_called_as_functions_of_the_library(name: str, tmp_path: Path) -> None:
    """LLVM said that a function is defined twice."""
    with autosched.trusting():
        records = plus_one(tmp_path, ["relax", name])
        message = rf"the library own defines {name} itself, .* another name"
        with pytest.raises(ConfigError, match=message):
            export(records, tmp_path / "out", ExportOptions(name="own"))


@needs_linker
def test_two_libraries_with_a_function_of_one_name(tmp_path: Path) -> None:
    """A program called that of the first, whichever header it had; it was of another shape."""
    for name, m in (("one", 8), ("two", 16)):
        export([record(matmul(m))], tmp_path / name, ExportOptions(name=name))
    source = tmp_path / "both.c"
    source.write_text('#include "one/one.h"\n#include "two/two.h"\n')
    cc = link.linker()
    assert cc is not None
    done = subprocess.run([*cc, "-fsyntax-only", str(source)], capture_output=True, text=True)
    assert done.returncode and "matmul is a function of another library, too" in done.stderr
    source.write_text('#include "one/one.h"\n#include "one/one.h"\n')
    words = [*cc, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", str(source)]
    assert subprocess.run(words).returncode == 0


@needs_linker
def test_two_libraries_whose_names_differ_in_case(tmp_path: Path) -> None:
    """The second header declared nothing."""
    for name, found in (("ops", record(matmul(8))), ("Ops", record(SOFTMAX))):
        export([found], tmp_path / name, ExportOptions(name=name))
    source = tmp_path / "both.c"
    source.write_text(
        '#include "ops/ops.h"\n#include "Ops/Ops.h"\n'
        "float x[512], y[512];\nint main(void) { return matmul(x, x, y) + softmax(x, y); }\n"
    )
    cc = link.linker()
    assert cc is not None
    assert subprocess.run([*cc, "-Wall", "-Werror", "-fsyntax-only", str(source)]).returncode == 0


@needs_linker
@pytest.mark.skipif(sys.platform != "linux", reason="loaded as one of many: RTLD_GLOBAL of ELF")
def test_two_versions_of_a_library_in_one_program(tmp_path: Path) -> None:
    """The second one's function ran the first one's kernel.

    And where a program of Python had loaded one for all, it exported `kernel_matmul`.
    """
    found = []
    for m in (8, 16):
        export([record(matmul(m))], tmp_path / str(m), ExportOptions(name="versions"))
        file = tmp_path / str(m) / "libversions.so"
        found.append(ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL).matmul)
    a, b, c = (np.ones(s, np.float32) for s in ((16, 16), (16, 32), (16, 32)))
    assert found[1](*(ctypes.c_void_p(array.ctypes.data) for array in (a, b, c))) == 0
    assert (c == 16).all()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
def test_cmake_may_include_a_library_twice(tmp_path: Path) -> None:
    (tmp_path / "own.cmake").write_text(cmake("own"))
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(twice NONE)\n"
        "include(own.cmake)\ninclude(own.cmake)\n"
    )
    words = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_extents_are_not_called_as_arrays() -> None:
    """The function that chooses by shape had two parameters `A_shape`."""
    params = [ParamSpec(name, "float32", (4,)) for name in ("A", "A_shape", "A2_shape", "A2")]
    names = c_names(params)
    assert names[0] == "A" and len({*names, *(f"{name}_shape" for name in names)}) == 8


@pytest.mark.parametrize("name", ["numpy", "copy", "m", "autosched", "limits", "gcc_s", "clean"])
def test_files_do_not_hide_others(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import numpy` of numpy.py was an import of itself; -lm found this library, not C's.

    limits.h was found in the place of C's; CMake refused a target `clean`.
    """
    monkeypatch.setattr(exporting, "linker", lambda: None)
    out = tmp_path / "out"
    with autosched.trusting():
        export(plus_one(tmp_path, [name]), out)
    assert (out / f"{name}_kernels.py").is_file() and not (out / f"{name}.py").exists()
    with pytest.raises(ConfigError, match=f"'{name}' is taken by a Python module or a C header"):
        export(ONE, out, ExportOptions(name=name))


@needs_linker
def test_expressions_are_not_sizes_of_each_other(tmp_path: Path) -> None:
    """One function added for arrays of 8 elements and multiplied for those of 9."""
    tasks = [
        Task.from_expression(text, {"A": (n,), "B": (n,)})
        for text, n in (
            ("C[i] = A[i] + B[i]", 8), ("C[i] = A[i] * B[i]", 9), ("C[i] = A[i] + B[i]", 10)
        )
    ]  # fmt: skip
    export([record(task) for task in tasks], tmp_path, ExportOptions(dispatch=True))
    made = module(tmp_path / "kernel.py")
    assert made.names()[3:] == ["kernel", "kernel_2"]
    eight, nine, ten = (np.full(n, 3, np.float32) for n in (8, 9, 10))
    assert (made.kernel(eight, eight) == 6).all() and (made.kernel(ten, ten) == 6).all()
    assert (made.kernel_2(nine, nine) == 9).all()
    with pytest.raises(ValueError, match="kernel: no kernel for the shapes"):
        made.kernel(nine, nine)


@needs_linker
def test_another_shape_gets_the_nearest_schedule(tmp_path: Path) -> None:
    records = [record(matmul(m), tiled(m)) for m in (64, 32)]
    options = ExportOptions(
        dispatch=True, also=({"M": 30}, {"M": 64}, {"M": 70, "N": 33}, {"M": 30})
    )
    done = export(records, tmp_path / "out", options)
    first, second, third = done.notes
    rest = "N=32, K=16), compared with NumPy"
    assert first == f"matmul(M=30, N=32, K=16): with the schedule of matmul(M=32, {rest}"
    assert second == "matmul(M=64, N=32, K=16) is among the records, so its own schedule is used"
    assert third == f"matmul(M=70, N=33, K=16): with the schedule of matmul(M=64, {rest}"
    kernels = module(tmp_path / "out" / "matmul.py")
    a, b = np.random.default_rng(0).random((70, 16), np.float32), np.ones((16, 33), np.float32)
    np.testing.assert_allclose(kernels.matmul(a, b), a @ b, rtol=1e-5)


@needs_linker
def test_outputs_tell_kernels_apart_that_take_the_same_inputs(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"N": 1, "C": 4, "H": 8, "W": 8, "K": 3, "stride": 1}
    tasks = [Task.from_workload("max_pool2d_nchw", padding=n, **sizes) for n in (0, 1)]
    export([record(task) for task in tasks], tmp_path / "out", ExportOptions(dispatch=True))
    pool = module(tmp_path / "out" / "max_pool2d_nchw.py").max_pool2d_nchw
    x = np.random.default_rng(0).random((1, 4, 8, 8), np.float32)
    with pytest.raises(
        ValueError, match=r"2 kernels take inputs .* pass Y, too, .* \(1, 4, 6, 6\)"
    ):
        pool(x)
    with pytest.raises(ValueError, match=r"2 kernels take inputs"):
        pool(x, out=None)
    for task, size in zip(tasks, (6, 8), strict=True):
        (want,) = task.reference([x])
        given = [np.zeros((1, 4, size, size), np.float32) for _ in range(5)]
        pool(x, given[0])
        pool(x, out=given[1])
        pool(x, out=(given[2],))
        pool(x, Y=given[3])
        pool(x, out=[given[4]])
        assert all((y == want).all() for y in given)


@needs_linker
def test_an_input_called_out_is_no_output(tmp_path: Path) -> None:
    """A kernel was looked for among the outputs' shapes by that of the input."""
    source = tmp_path / "first.py"
    source.write_text(
        "from autosched import te\n\n\n"
        "def first(m):\n"
        "    x = te.placeholder((8,), name='out')\n"
        "    return x, te.compute((m,), lambda i: x[i], name='Y')\n"
    )
    with autosched.trusting():
        tasks = [Task.from_python(f"{source}:first", m=m) for m in (4, 8)]
        export([record(task) for task in tasks], tmp_path / "out", ExportOptions(dispatch=True))
    first = module(tmp_path / "out" / "first.py").first
    x, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    first(out=x, Y=y)
    assert (y == x[:4]).all()


@needs_linker
def test_what_is_written_beside(folder: Path) -> None:
    about = json.loads((folder / "kernels.json").read_text())
    assert about["dispatch"] == {
        "matmul": ["matmul_64x32x16", "matmul_48x32x16"], "softmax": ["softmax_16x32"]
    }  # fmt: skip
    assert about["threads"] == 2
    assert set(about["files"]) <= {path.name for path in folder.iterdir()}
    contents = read_log(folder / "kernels.records.jsonl")
    assert [r.steps for r in contents.records] == [r.steps for r in RECORDS]


def test_without_a_linker_the_objects_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "linker", lambda: None)
    done = export(RECORDS[2:], tmp_path / "out")
    names = {path.name for path in done.files}
    assert {"softmax_runtime.o", "softmax_softmax.o", "softmax.h"} <= names
    assert "libsoftmax.so" not in names
    (note,) = done.notes
    assert note.startswith("no C compiler was found (CC, cc, gcc, clang, or the package ziglang)")
    command = note.splitlines()[1].split()
    assert command[:4] == ["cc", "-shared", "-o", "libsoftmax.so"]
    assert set(command[4:6]) == {"softmax_runtime.o", "softmax_softmax.o"}
    assert f"link them in {tmp_path / 'out'} with" in note


def test_everything_is_written_where_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full folder is named rightly: none other takes anything."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there is none"))
    done = export(RECORDS[2:], tmp_path / "out")
    assert {path.parent for path in done.files} == {tmp_path / "out"}
    assert set((tmp_path / "out").iterdir()) == set(done.files)


@needs_linker
def test_folders_with_a_comma(tmp_path: Path) -> None:
    """Where the linker was told the symbols with -Wl, what follows the comma was another option."""
    export(RECORDS[2:], tmp_path / "a,b" / "out")
    assert module(tmp_path / "a,b" / "out" / "softmax.py").names() == ["softmax"]


def test_folders_of_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files cannot be moved into a folder that is mounted, or linked to, from beside it."""
    monkeypatch.setattr(exporting, "linker", lambda: None)
    (tmp_path / "out").mkdir()
    move = Path.replace

    def within_one(source: Path, target: Path) -> Path:
        if (tmp_path / "out" in source.parents) != (tmp_path / "out" in target.parents):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return move(source, target)

    monkeypatch.setattr(Path, "replace", within_one)
    done = export(RECORDS[2:], tmp_path / "out")
    assert set((tmp_path / "out").iterdir()) == set(done.files)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_which_compiler_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "none-such -m64")
    with pytest.raises(CompileError, match="CC=none-such -m64: none-such was not found"):
        link.linker()
    monkeypatch.setenv("CC", "cc -DNAME='x")
    with pytest.raises(CompileError, match="CC=cc -DNAME='x: no closing quotation; expected"):
        link.linker()
    monkeypatch.setenv("CC", f"{sys.executable} -c pass")
    assert link.linker() == [sys.executable, "-c", "pass"]
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang")
    assert link.linker() == [sys.executable, "-m", "ziglang", "cc"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert link.linker() is None
    failing = [sys.executable, "-c", "import sys; sys.exit('no such option')"]
    with pytest.raises(CompileError, match=r"linking lib.so failed: [^\n]* says\nno such option$"):
        link.link(failing, [], tmp_path / "lib.so", [])
    silent = [sys.executable, "-c", "import sys; sys.exit(3)"]
    with pytest.raises(CompileError, match="says\nnothing, its status is 3"):
        link.link(silent, [], tmp_path / "lib.so", [])
    with pytest.raises(
        CompileError, match=r"linking lib.so failed: .*says\nnothing, its status is 0"
    ):
        link.link([sys.executable, "-c", "pass"], [], tmp_path / "lib.so", [])
    with pytest.raises(CompileError, match="none-such cannot be started"):
        link.link(["none-such"], [], tmp_path / "lib.so", [])


ONE = [record(matmul(8))]


@pytest.mark.parametrize(
    ("records", "options", "says"),
    [
        ([], ExportOptions(), "there is no record"),
        ([*ONE, cuda_record()], ExportOptions(), "for the CPU and for CUDA; build them apart"),
        ([*ONE, record(matmul(9, cpu="znver2"))], ExportOptions(), "one library is for one CPU"),
        (ONE, ExportOptions(name="a-b"), "'a-b' is not an identifier"),
        (ONE, ExportOptions(name="lambda"), "'lambda' is not an identifier in both C and Python"),
        (ONE, ExportOptions(name="n" * 300), "nnn... has 300 letters, more than the 200"),
        (ONE, ExportOptions(also=({"M": 3},)), r"need a function that chooses by shape"),
        (ONE, ExportOptions(archs=("sm_80",)), "are for CUDA kernels only"),
        ([cuda_record()], ExportOptions(dispatch=True), "is for CPU kernels only"),
        (ONE, ExportOptions(dispatch=True, also=({"Q": 3},)), "Q: matmul.* has M, N, K"),
        ([*ONE, record(SOFTMAX)], ExportOptions(dispatch=True, also=({"M": 3},)), "one operator"),
        (
            [record(matmul(8), steps_from_json([["SP", 2, 7, 8, [4], 1]]))],
            ExportOptions(dispatch=True, also=({"M": 3},)),
            "no tuned schedule is legal for matmul.*: that of matmul.*names a loop that",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(
    records: list[Record], options: ExportOptions, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says):
        export(records, tmp_path / "out", options)
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "linker", lambda: None)
    mine = tmp_path / "matmul.h"
    mine.write_text("mine")
    with pytest.raises(ConfigError, match=r"1 file that no earlier build wrote .*: matmul.h; give"):
        export(ONE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["matmul.h"]
    export(ONE, tmp_path, ExportOptions(force=True))
    assert mine.read_text() != "mine"
    (tmp_path / "other.txt").write_text("mine")
    before = set(tmp_path.iterdir())
    export([record(matmul(9))], tmp_path)  # its own files are
    assert set(tmp_path.iterdir()) == before
    assert "float32 [9, 16]" in mine.read_text()
