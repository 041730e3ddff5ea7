"""Arguments by position and by name, outputs left out, tensors of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.driver import build_steps
from autosched.errors import MeasureError
from autosched.runtime.artifact import ParamSpec
from autosched.runtime.calling import Spec, arrange
from autosched.runtime.cpu import CpuKernel, load

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def kernel() -> CpuKernel:
    shapes = {"A": (4, 3), "B": (3, 5)}
    task = autosched.Task.from_expression("C[i, j] = sum(k, A[i, k] * B[k, j])", shapes)
    return load(build_steps(task.dag, (), task.target))


@pytest.fixture
def arrays() -> tuple[Array, Array, Array]:
    random = np.random.default_rng(0)
    return (
        random.random((4, 3), np.float32),
        random.random((3, 5), np.float32),
        np.empty((4, 5), np.float32),
    )


WRITES = np.from_dlpack(np.zeros(1)).flags.writeable
"""Before 2.3 NumPy's views of what offers DLPack are read-only."""


class Dlpack:
    """Offers __dlpack__ alone."""

    def __init__(self, array: Array, on_gpu: bool = False) -> None:
        self.array, self.on_gpu = array, on_gpu

    def __dlpack__(self, **options: Any) -> Any:
        if self.on_gpu:
            raise BufferError("it is on a GPU")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if self.on_gpu else 1, 0)


class Interface:
    """Offers __array_interface__ alone."""

    def __init__(self, array: Array) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


class Tensor(Dlpack):
    """As PyTorch's: a view of its own, but for types that NumPy does not have."""

    __module__ = "torch"

    def numpy(self) -> Array:
        if self.on_gpu:
            raise TypeError("it is on a GPU")
        return self.array

    def untyped_storage(self) -> SimpleNamespace:
        return SimpleNamespace(nbytes=lambda: self.array.nbytes)


class Failing(Dlpack):
    """An array whose library fails when it is viewed."""

    def __init__(self, array: Array, error: Exception) -> None:
        super().__init__(array)
        self.error = error

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("cuda:0"), "KeyError: 'cuda:0'; copy"),
        (NotImplementedError(), "NotImplementedError; copy"),
        (ZeroDivisionError("no strides"), "ZeroDivisionError: no strides; copy"),
        (BufferError("it moved."), "it moved; copy"),
    ],
)
def test_whatever_a_library_raises_names_the_argument(
    kernel: CpuKernel, arrays: tuple[Array, Array, Array], error: Exception, said: str
) -> None:
    a, b, _ = arrays
    message = rf"argument 2 \(B\) \(Failing\) cannot be viewed in host memory: {said}"
    with pytest.raises(MeasureError, match=message):
        kernel(a, Failing(b, error))


def test_tensors_of_pytorch(kernel: CpuKernel, arrays: tuple[Array, Array, Array]) -> None:
    a, b, c = arrays
    wanted = a @ b
    given = [Tensor(array) for array in arrays]
    given[0].__dict__["__dlpack__"] = None  # is not asked
    kernel(*given)
    np.testing.assert_allclose(c, wanted, rtol=1e-6)
    with pytest.raises(MeasureError, match=r"\(B\) \(Tensor\) cannot be viewed .*: it is on a GPU"):
        kernel(a, Tensor(b, on_gpu=True), c)


def test_every_way_to_call(kernel: CpuKernel, arrays: tuple[Array, Array, Array]) -> None:
    a, b, c = arrays
    ways: dict[str, Callable[[], Any]] = {
        "positions": lambda: kernel(a, b, c),
        "names": lambda: kernel(C=c, A=a, B=b),
        "both": lambda: kernel(a, C=c, B=b),
        "out": lambda: kernel(a, b, out=c),
        "outs": lambda: kernel(a, b, out=(c,)),
        "dlpack": lambda: kernel(Dlpack(a), b, Dlpack(c) if WRITES else c),
        "interface": lambda: kernel(Interface(a), Interface(b), Interface(c)),
        "bound": lambda: kernel.bind(a, b, c).run(),
        "bound by name": lambda: kernel.bind(a, b, C=c).run(),
    }
    for name, way in ways.items():
        c[:] = np.nan
        assert way() is None, name
        np.testing.assert_allclose(c, a @ b, rtol=1e-6, err_msg=name)
    made = [kernel(a, b), kernel(A=a, B=b), kernel(Dlpack(a), b), kernel(a, B=Interface(b))]
    made.append(kernel(a, b, out=None))  # as of NumPy's functions
    for result in made:
        np.testing.assert_allclose(result, a @ b, rtol=1e-6)
        assert result.ctypes.data % 64 == 0
    assert len({result.ctypes.data for result in made}) == len(made)


def test_calls_that_are_refused(kernel: CpuKernel, arrays: tuple[Array, Array, Array]) -> None:
    a, b, c = arrays
    refusals: dict[str, Callable[[], Any]] = {
        r"kernel takes 3 arguments \(A, B, C\), found 1": lambda: kernel(a),
        r"takes 3 arguments \(A, B, C\), found 2": lambda: kernel(a, C=c),
        r"takes 3 arguments \(A, B, C\), found 4": lambda: kernel(a, b, c, c),
        r"takes 3 arguments \(A, B, C\), found 0": lambda: kernel(),
        r"has no argument 'D'; its arguments are A, B, C": lambda: kernel(a, b, D=c),
        r"argument 2 \(B\) is given twice": lambda: kernel(a, b, c, B=b),
        r"argument 3 \(C\) is given twice, by pos": lambda: kernel(a, b, c, out=c),
        r"argument 3 \(C\) is given twice, by name and by out": lambda: kernel(a, b, C=c, out=c),
        r"out must be 1 of its outputs \(C\), found 2": lambda: kernel(a, b, out=(c, c)),
        r"argument 2 \(B\) must have shape \(3, 5\), found \(4, 3\)": lambda: kernel(a, a),
        r"argument 1 \(A\) \(Dlpack\) cannot be viewed in host memory: it is on": lambda: kernel(
            Dlpack(a, on_gpu=True), b, c
        ),
        r"argument 3 \(C\) is written by the kernel but is read-only": lambda: kernel(
            a, b, _frozen(c)
        ),
        "bind needs the output C too": lambda: kernel.bind(A=a, B=b),
        r"argument 1 \(A\) is a masked array, whose mask is not seen": lambda: kernel(
            np.ma.array(a, mask=a > 0), b
        ),
        r"argument 2 \(B\) is a masked array": lambda: kernel(A=a, B=np.ma.array(b)),
        r"argument 3 \(C\) is a masked array": lambda: kernel(a, b, np.ma.array(c)),
    }
    for text, way in refusals.items():
        with pytest.raises(MeasureError, match=text):
            way()


def _frozen(array: Array) -> Interface:
    view = array.view()
    view.flags.writeable = False
    return Interface(view)


def test_what_a_kernel_looks_like(kernel: CpuKernel) -> None:
    text = "kernel(A: float32[4, 3], B: float32[3, 5]) -> C: float32[4, 5]"
    assert repr(kernel) == f"<CPU kernel {text}>"


def test_several_outputs_and_one_called_out() -> None:
    specs = [ParamSpec("x", "float32", (2,), is_output=True), ParamSpec("y", "float32", (2,))]
    specs += [ParamSpec("out", "float32", (3,), is_output=True)]
    new = iter("pq")
    given, made = arrange("f", specs, ["y"], {}, lambda spec: next(new), ValueError)
    assert (given, made) == (["p", "y", "q"], ["p", "q"])
    assert arrange("f", specs, [], {"y": 1, "x": 2, "out": 3}, _never, ValueError) == (
        [2, 1, 3],
        [],
    )
    assert arrange("f", specs, [1, 2, 3], {}, _never, ValueError) == ([1, 2, 3], [])
    named_so = [ParamSpec("out", "float32", (4,), is_output=k == 1) for k in range(2)]
    assert arrange("f", named_so[:1], [], {"out": None}, _never, ValueError) == ([None], [])
    assert arrange("f", named_so[1:], [], {"out": None}, lambda spec: 7, ValueError) == ([7], [7])
    with pytest.raises(ValueError, match="takes 3 arguments"):
        arrange("f", specs, [1], {"out": 3}, _never, ValueError)
    several = [specs[1], specs[0], ParamSpec("z", "float32", (3,), is_output=True)]
    assert arrange("f", several, [1], {"out": (2, 3)}, _never, ValueError) == ([1, 2, 3], [])


def _never(spec: Spec) -> Any:
    raise AssertionError(spec)
