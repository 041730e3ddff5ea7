"""Recorded kernels as operators of PyTorch."""

from __future__ import annotations

import shutil
import sysconfig
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.errors import ConfigError, MeasureError
from autosched.measure.result import MeasureResult
from autosched.session.tuned import TunedKernel
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.exporting import cuda_record, matmul, record, tiled
from kit.records import written_here

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from autosched.torch import registry  # noqa: E402

Tensor = Any


@pytest.fixture(scope="module")
def mm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An operator for two shapes of a product, one of them with two threads."""
    path = tmp_path_factory.mktemp("torch") / "mm.jsonl"
    written_here(path, record(matmul(64, threads=2), tiled(64)), record(matmul(48), tiled(48)))
    return autosched.torch.register(path, name="mm")["mm"]


def inputs(m: int = 64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(m)
    a, b = (torch.rand(shape, generator=generator) for shape in ((m, 16), (16, 32)))
    return a, b


NUMBERS = count()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The operators that a test registers are forgotten after it, here and in PyTorch.

    They are in a namespace of their own: the examples of docs/torch.md leave an operator `matmul`.
    """
    namespace = f"autosched_{next(NUMBERS)}"
    library = torch.library.Library(namespace, "FRAGMENT")
    monkeypatch.setattr(registry, "NAMESPACE", namespace)
    monkeypatch.setattr(registry, "_library", library)
    monkeypatch.setattr(registry, "_operators", {})
    yield namespace
    library._destroy()


@pytest.mark.parametrize("m", [64, 48])
def test_the_kernel_is_chosen_by_shape(mm: Any, m: int) -> None:
    a, b = inputs(m)
    c = mm(a, b)
    torch.testing.assert_close(c, a @ b)
    assert mm(a, b).data_ptr() != c.data_ptr()
    assert torch.ops.autosched.mm.default is mm
    torch.library.opcheck(mm, (a, b))
    assert autosched.torch.registered()["mm"] == [
        f"mm(A: float32[{m}, 16], B: float32[16, 32]) -> C: float32[{m}, 32]" for m in (64, 48)
    ]


@pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="PyTorch before 2.10"
)
def test_parameters_are_passed_as_the_tensors_that_they_are(
    mm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once took a view of NumPy's: 5 us."""
    a, b = inputs(48)
    c = mm(a, b)
    monkeypatch.setattr("autosched.runtime.cpu.view_of", lambda value: pytest.fail("viewed"))
    for asked in (False, True):
        with torch.no_grad():
            assert torch.equal(mm(a, torch.nn.Parameter(b, requires_grad=asked)), c)


def test_one_kernel_is_taken_and_refuses_other_shapes(fresh: str) -> None:
    a, b = inputs()
    tuned = TunedKernel(matmul(64), record(matmul(64)))
    mine = autosched.torch.register(tuned, name="one")["one"]
    torch.testing.assert_close(mine(a, b), a @ b)
    with pytest.raises(
        MeasureError, match=r"no kernel for A float32\[48, 16\], B float32\[16, 32\]"
    ):
        mine(*inputs(48))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_none_is_no_tensor(mm: Any, device: str) -> None:
    """PyTorch passes it on; it had no attribute 'shape'."""
    a, b = (each.to(device) for each in inputs())
    for given, told in (((None, b), "NoneType, Tensor"), ((a, None), "Tensor, NoneType")):
        with pytest.raises(MeasureError, match=f"mm: expected tensors for A, B, found {told}"):
            mm(*given)


def test_none_is_no_tensor_for_one_kernel(fresh: str) -> None:
    tuned = TunedKernel(matmul(64), record(matmul(64)))
    mine = autosched.torch.register(tuned, name="one")["one"]
    with pytest.raises(MeasureError, match="one: expected tensors for A, B, found NoneType, Ten"):
        mine(None, inputs()[1])


HEADERS = Path(sysconfig.get_path("include")) / "Python.h"
NO_INDUCTOR = pytest.mark.skipif(
    not (shutil.which("g++") and HEADERS.exists()), reason="inductor compiles C++ for Python"
)
BACKENDS = ["aot_eager", pytest.param("inductor", marks=NO_INDUCTOR)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_graph_keeps_the_operator(mm: Any, backend: str) -> None:
    a, b = inputs()
    graphs: list[Any] = []

    def net(multiply: Callable[[Tensor, Tensor], Tensor], x: Tensor) -> Tensor:
        return torch.relu(multiply(x.t().contiguous() - 0.5, b)).sum(1)

    def compiler(graph: Any, example: Any) -> Any:
        graphs.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, example)

    with torch.no_grad():
        x = a.t().contiguous()
        compiled = torch.compile(lambda x: net(mm, x), backend=compiler, fullgraph=True)
        torch.testing.assert_close(compiled(x), net(torch.matmul, x))
        assert torch.equal(compiled(x), compiled(x))
    (graph,) = graphs
    assert mm in [node.target for node in graph.graph.nodes]


def on_cuda(tensor: Tensor) -> Tensor:
    """A tensor that says it is on a GPU, and has no values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")


REFUSALS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "a shape": (lambda a: a[:40], r"no kernel for A float32\[40, 16\], B .*; there are mm\(A: flo"),
    "a type": (lambda a: a.double(), r"no kernel for A float64\[64, 16\]"),
    "strides": (lambda a: a.t().contiguous().t(), r"contiguous, found strides \(1, 64\) for shape"),
    "a gradient": (lambda a: a.requires_grad_(), "requires a gradient, and autosched::mm has none"),
    "sparse": (lambda a: a.to_sparse(), "must be dense, found the layout torch.sparse_coo"),
    "no memory": (lambda a: a.to("meta"), "must be on the CPU, which it was tuned for, found meta"),
    "a GPU": (on_cuda, "must be on the CPU, which it was tuned for, found cuda:0; move it"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_tensors_that_do_not_fit(mm: Any, name: str) -> None:
    a, b = inputs()
    change, says = REFUSALS[name]
    where = "autosched::mm: " + ("" if "no kernel" in says else r"argument 1 \(A\) (must be )?")
    with pytest.raises(MeasureError, match=f"{where}.*{says}"):
        mm(change(a), b)


def test_strides_and_signs_are_copied_where_that_is_asked_for(tmp_path: Path) -> None:
    op = autosched.torch.register(
        written_here(tmp_path / "r.jsonl", record(matmul(64))), name="copying", copy=True
    )["copying"]
    a, b = inputs()
    for x in (a.t().contiguous().t(), a[:1].expand(64, 16), torch._neg_view(a)):
        torch.testing.assert_close(op(x, b), x @ b)


def test_a_gradient_that_nobody_gave(mm: Any) -> None:
    a, b = inputs()
    weight = torch.nn.Parameter(b)
    with torch.no_grad():
        torch.testing.assert_close(mm(a, weight), a @ b)
    with torch.inference_mode():
        torch.testing.assert_close(mm(a, weight), a @ b)
    compiled = torch.compile(lambda x: mm(x, weight), backend="aot_eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="autosched::mm has none"):
        compiled(a)
    with torch.no_grad():
        torch.testing.assert_close(compiled(a), a @ b)


def test_a_gradient_of_the_users(tmp_path: Path, fresh: str) -> None:
    path = written_here(tmp_path / "mm.jsonl", record(matmul(64)))
    trained = autosched.torch.register(path, name="trained")["trained"]
    a, b = inputs()

    def setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return gradient @ y.t(), x.t() @ gradient

    def loss(multiply: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
        return multiply(x, y).square().sum()

    torch.library.register_autograd(f"{fresh}::trained", backward, setup_context=setup)
    wanted = [x.detach().clone().requires_grad_() for x in (a, b)]
    loss(torch.matmul, *wanted).backward()
    way: Callable[[Tensor, Tensor], Tensor] = lambda x, y: loss(trained, x, y)  # noqa: E731
    for way in (way, torch.compile(way, backend="aot_eager", fullgraph=True)):
        given = [x.detach().clone().requires_grad_() for x in (a, b)]
        way(*given).backward()
        for x, y in zip(given, wanted, strict=True):
            torch.testing.assert_close(x.grad, y.grad)


def pooling(k: int) -> Task:
    return Task.from_workload("max_pool2d_nchw", N=1, C=2, H=4, W=4, K=k, stride=2, padding=0)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_inputs_that_are_stored_in_another_order(fresh: str, dtype: str) -> None:
    steps = [["SP", 2, 1, 16, [8], 1], ["RE", 2, [0, 1, 3, 2]], ["AN", 2, 0, 3]]
    args: dict[str, Any] = {"M": 16, "N": 16, "K": 16, "dtype": dtype}
    task = Task.from_workload("matmul", **args, layout_rewrite="pre-transformed")
    best = TunedKernel(task, record(task, steps_from_json(steps)))
    op = autosched.torch.register(best, name="stored")["stored"]
    a, b = ((torch.arange(256) % k).reshape(16, 16).to(getattr(torch, dtype)) for k in (3, 5))
    same, stored = autosched.torch.prepare("stored", a, b)
    assert same is a and stored.dtype == b.dtype
    torch.testing.assert_close(op(a, stored), a @ b)
    with pytest.raises(MeasureError, match="no kernel for A"):
        op(a, b)
    with pytest.raises(ConfigError, match=r"a registered operator \(stored\), found 'other'"):
        autosched.torch.prepare("other", a, b)
    with pytest.raises(ConfigError, match=r"expected a registered operator .*, found \[\]"):
        autosched.torch.prepare([], a, b)  # type: ignore[arg-type]  # what the check is for
    nested = torch.nested.as_nested_tensor([a])
    for given, told in (
        ((a,), "Tensor"),
        ((a, None), "Tensor, NoneType"),
        ((a, nested), "Tensor, nested Tensor"),
        ((), "nothing"),
    ):
        with pytest.raises(MeasureError, match=f"expected tensors for A, B, found {told}"):
            autosched.torch.prepare("stored", *given)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ({"in_dtype": "int8"}, "matmul"),
        ({"in_dtype": "int8", "out_dtype": "int8"}, "matmul_out_int8"),
        ({"dtype": "bfloat16", "acc_dtype": "float32"}, "matmul_out_bfloat16"),
        ({"in_dtype": "float8_e4m3fn"}, "matmul"),
    ],
)
def test_types_of_inputs_sums_and_outputs(fresh: str, kind: dict[str, Any], name: str) -> None:
    task = Task.from_workload("matmul", **{"M": 3, "N": 5, "K": 4, **kind})
    found = autosched.torch.register(TunedKernel(task, record(task, ())))
    assert list(found) == [name]
    arrays = task.inputs()
    kinds = [getattr(torch, tensor.dtype.name) for tensor in task.tensors]
    given = [
        torch.from_numpy(array.view(f"u{array.itemsize}")).view(each)
        for array, each in zip(arrays, kinds, strict=False)
    ]
    out = found[name](*given)
    assert out.dtype is kinds[-1]
    (want,) = task.reference(arrays)
    np.testing.assert_allclose(out.double(), want.astype(np.float64), rtol=1e-2)


def test_a_fresh_operator_may_have_the_name_of_another(mm: Any, fresh: str) -> None:
    task = matmul(16)
    found = autosched.torch.register(TunedKernel(task, record(task, ())), name="mm")["mm"]
    assert found is not mm and getattr(torch.ops, fresh).mm.default is found
    assert torch.ops.autosched.mm.default is mm


def test_several_threads_call_one_operator(mm: Any) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, b = inputs(64 if seed % 2 else 48)
        for _ in range(30):
            if not torch.allclose(mm(a, b), a @ b, atol=1e-5):
                wrong.append(seed)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    assert not wrong


def test_what_is_no_size_is_part_of_the_name(tmp_path: Path, fresh: str) -> None:
    path = written_here(tmp_path / "pool.jsonl", record(pooling(2)), record(pooling(3)))
    found = autosched.torch.register(path)
    names = [f"max_pool2d_nchw_stride2_K{k}" for k in (2, 3)]
    assert list(found) == names
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    for k, name in zip((2, 3), names, strict=True):
        assert torch.equal(found[name](x), torch.nn.functional.max_pool2d(x, k, 2))


def test_results_of_a_run_and_shapes_that_come_later(fresh: str) -> None:
    task = Task.from_expression("C[i] = A[i] + self[i]; D[i] = A[i]", {"A": (4,), "self": (4,)})
    larger = Task.from_expression("C[i] = A[i] + self[i]; D[i] = A[i]", {"A": (9,), "self": (9,)})
    best = [TunedKernel(each, record(each)) for each in (task, larger)]
    op = autosched.torch.register(best[0], name="both")["both"]
    c, d = op(torch.ones(4), torch.full((4,), 2.0))
    np.testing.assert_array_equal([c.numpy(), d.numpy()], [[3] * 4, [1] * 4])
    with pytest.raises(MeasureError, match="no kernel for A float32"):
        op(torch.ones(9), torch.ones(9))
    assert autosched.torch.register([best[1]], name="both")["both"] is op
    assert op(torch.ones(9), torch.ones(9))[0].sum() == 18


def test_files_count_as_one(tmp_path: Path, fresh: str) -> None:
    """The faster of two records of a shape is taken, not that of the last file."""
    slow = [record(matmul(48)), replace(record(matmul(64)), result=MeasureResult((1e-3,), None))]
    files = [
        written_here(tmp_path / "first.jsonl", record(matmul(64), tiled(64))),
        written_here(tmp_path / "second.jsonl", *slow),
    ]
    autosched.torch.register(files, name="mm")
    variants = registry._operators["mm"][1]._variants.values()
    origins = [each.kernel.origin for each in variants]
    assert [origin.file for origin in origins if origin is not None] == [files[0], files[1]]


def test_threads_that_register_at_once(fresh: str, monkeypatch: pytest.MonkeyPatch) -> None:
    define = registry._define

    def slowly(*given: Any) -> None:
        time.sleep(0.2)
        define(*given)

    monkeypatch.setattr(registry, "_define", slowly)
    best = TunedKernel(matmul(48), record(matmul(48)))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: autosched.torch.register(best, name="once"), range(2)))
    assert found[0] == found[1]


def test_records_that_are_refused(tmp_path: Path, fresh: str) -> None:
    twice = Task.from_expression("C[i] = A[i] + A[i]", {"A": (4,)})
    square = Task.from_expression("C[i] = A[i] * A[i]", {"A": (4,)})
    both = [TunedKernel(each, record(each)) for each in (twice, square)]
    wrong: Any = 3
    with pytest.raises(ConfigError, match=r"kernel is C\[i\] = A\[i\] \+ A\[i\] already"):
        autosched.torch.register(both)
    with pytest.raises(ConfigError, match="name: f is for one computation, the records are of"):
        autosched.torch.register(both, name="f")
    with pytest.raises(
        ConfigError, match="tuned for CUDA; operators are made of kernels for the CPU"
    ):
        autosched.torch.register(written_here(tmp_path / "cuda.jsonl", cuda_record()))
    with pytest.raises(
        ConfigError, match=r"record file, what autosched\.tune returned, .* list of these, found 3"
    ):
        autosched.torch.register(wrong)
    with pytest.raises(ConfigError, match="name: expected an identifier, found 'a-b'"):
        autosched.torch.register(both[:1], name="a-b")
