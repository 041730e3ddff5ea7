"""Every built-in workload against an evaluation of its declaration; refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import workloads
from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.measure.check import Allowed, compare
from autosched.measure.tolerance import tolerances
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.task import Task
from autosched.workloads.evaluate import evaluate
from autosched.workloads.workload import output_size, shape_of
from kit.built_ins import small_args
from kit.types import Array

CASES = [(name, small_args(name)) for name, w in workloads.WORKLOADS.items() if w.types.dtypes]
CASES += [
    ("conv2d_nhwc", {**small_args("conv2d_nhwc"), "dilation": 2, "groups": 2}),
    ("conv2d_nhwc", {**small_args("conv2d_nhwc"), "padding": 0, "KH": 1, "KW": 1}),
    ("conv2d_transpose_nhwc", {**small_args("conv2d_transpose_nhwc"), "padding": 0, "stride": 1}),
    ("matmul", {"M": 1, "N": 1, "K": 1}),
]


@pytest.mark.parametrize(("name", "args"), CASES)
def test_reference_equals_declaration(name: str, args: dict[str, int]) -> None:
    workload = workloads.get(name)
    tensors = workload.tensors(**args)
    inputs = workload.inputs(seed=3, **args)
    expected = workload.reference(inputs, **args)
    assert [shape_of(t) for t in tensors] == [a.shape for a in (*inputs, *expected)]
    for found, array in zip(evaluate(tensors, inputs), expected, strict=True):
        assert array.dtype == np.float32
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6)


def test_names_and_order_of_tensors() -> None:
    tensors = workloads.get("conv2d_nchw_bn_relu").tensors(**small_args("conv2d_nchw_bn_relu"))
    assert [t.name for t in tensors] == ["X", "K", "bias", "scale", "offset", "relu"]


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_dtype_reaches_tensors_inputs_and_results(dtype: str) -> None:
    workload = workloads.get("matmul")
    args: dict[str, Any] = {"M": 3, "N": 4, "K": 5, "dtype": dtype}
    inputs = workload.inputs(**args)
    assert {str(t.dtype) for t in workload.tensors(**args)} == {dtype}
    assert {str(a.dtype) for a in (*inputs, *workload.reference(inputs, **args))} == {dtype}


def test_inputs_depend_on_the_seed_only() -> None:
    workload = workloads.get("add_relu")
    first, again, other = (workload.inputs(seed, M=8, N=8)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("types", "fewer"),
    [
        ({"in_dtype": "int16"}, "int16"),
        ({"dtype": "int32"}, "int16"),
        ({"dtype": "int64"}, "int32"),
        ({"in_dtype": "int32", "acc_dtype": "int64"}, "int32"),
        ({"in_dtype": "uint8", "weight_dtype": "int16"}, "int16"),
    ],
)
@pytest.mark.parametrize("K", [1, 5000])
def test_sums_of_integers_need_the_bits_of_their_type(
    types: dict[str, Any], fewer: str, K: int
) -> None:
    """A kernel that adds them up in fewer bits is wrong; none wraps."""
    workload = workloads.get("matmul")
    a, b = workload.inputs(M=9, N=9, K=K, **types)
    (total,) = workload.reference([a, b], M=9, N=9, K=K, **types)
    assert (np.abs(total) > np.iinfo(fewer).max).mean() > 0.3
    np.testing.assert_array_equal(total, a.astype(object) @ b.astype(object))


@pytest.mark.parametrize("types", [{"dtype": "float64"}, {"acc_dtype": "float64"}], ids=str)
def test_sums_in_double_need_its_bits(types: dict[str, Any]) -> None:
    """A kernel that adds them up in float32, or multiplies in it, is wrong."""
    sizes = {"M": 9, "N": 9, "K": 65}
    workload = workloads.get("matmul")
    a, b = workload.inputs(**sizes, **types)
    (want,) = workload.reference([a, b], **sizes, **types)
    found = (a.astype("float32") @ b.astype("float32")).astype("float64")
    assert compare("C", a.astype("float64") @ b.astype("float64"), want) is None
    assert compare("C", found, want) is not None


def test_what_is_only_moved_in_double_needs_its_bits() -> None:
    """Also in an expression; what is compared in float32 as well stays exact in float32."""
    inputs = Task.from_expression("B[i] = max(A[i], 0)", {"A": [99]}, dtype="float64").inputs()
    assert not np.array_equal(inputs[0], inputs[0].astype("float32"))
    expr, types = "B[i] = A[i] + 0.5; C[i] = float32(A[i] > 1)", {"A": "float32", "B": "float64"}
    (a,) = Task.from_expression(expr, {"A": [99]}, dtype=types).inputs()
    np.testing.assert_array_equal(a * 256, np.rint(a * 256))


def test_a_pooling_in_float32_is_wrong_for_double() -> None:
    """The largest of nine negative numbers is small, and multiples of 2**-24 fit float32."""
    task = Task.from_workload(
        "max_pool2d_nchw", N=1, C=4, H=17, W=17, K=3, stride=2, padding=1, dtype="float64"
    )
    (want,) = task.reference(task.inputs())
    assert (want != want.astype("float32")).mean() > 0.5
    assert compare("Y", want.astype("float32").astype("float64"), want) is not None


@pytest.mark.parametrize("maximum", [0.0, 3e38, "another row's", "half a row's", "all but one's"])
@pytest.mark.parametrize(
    "types",
    [
        {"dtype": "float32"},
        {"dtype": "float64"},
        {"in_dtype": "bfloat16"},
        {"in_dtype": "float16", "out_dtype": "bfloat16"},
        {"in_dtype": "int16"},
    ],
    ids=str,
)
def test_a_softmax_that_subtracts_another_maximum_is_wrong(
    types: dict[str, Any], maximum: float | str
) -> None:
    """What was in memory where a kernel leaves out the maximum of some rows, or that of a part."""
    sizes = {"M": 40, "N": 33}
    workload = workloads.get("softmax")
    (a,) = workload.inputs(**sizes, **types)
    (want,) = workload.reference([a], **sizes, **types)
    values = a.astype(workload.types_of({**sizes, **types}).acc)
    if maximum == "another row's":
        other = np.roll(values.max(axis=1, keepdims=True), 1, axis=0)
    elif isinstance(maximum, str):
        count = 17 if maximum == "half a row's" else 32
        other = values[:, :count].max(axis=1, keepdims=True)
    else:
        other = np.full((40, 1), maximum)
    with np.errstate(over="ignore", invalid="ignore"):
        exp = np.exp(values - other.astype(values.dtype))
        found = (exp / exp.sum(axis=1, keepdims=True)).astype(want.dtype)
    assert compare("norm", found, want) is not None


@pytest.mark.parametrize("keys", [0, 17, 39])
@pytest.mark.parametrize("D", [1, 2, 3, 64])
@pytest.mark.parametrize(
    "types",
    [
        {"dtype": "float32"},
        {"dtype": "float64"},
        {"dtype": "float16"},
        {"in_dtype": "bfloat16"},
        {"in_dtype": "float16", "out_dtype": "float16"},
        {"in_dtype": "float8_e5m2"},
        {"in_dtype": "float8_e4m3fn", "acc_dtype": "float16"},
    ],
    ids=str,
)
def test_attention_weights_need_the_maximum_of_all_keys(
    types: dict[str, Any], D: int, keys: int
) -> None:
    """Exponentials of scores of 64 terms did not overflow, whatever was subtracted."""
    task = Task.from_workload("transpose_batch_matmul_softmax", B=1, S=40, H=3, D=D, **types)
    q, k = task.inputs()
    (want,) = task.reference([q, k])
    acc = (
        workloads.get("transpose_batch_matmul_softmax")
        .types_of(types | {"B": 1, "S": 40, "H": 3, "D": D})
        .acc
    )
    scores = np.einsum("qhd,khd->hqk", q[0].astype(acc), k[0].astype(acc))
    (tolerance,) = tolerances(task, [q, k], [want])

    def weights(most: Any) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            exp = np.exp(scores - most)
            found: Array = (exp / exp.sum(axis=-1, keepdims=True)).astype(want.dtype)
        return found

    some = scores[..., :keys].max(axis=-1, keepdims=True) if keys else 0
    assert compare("norm", weights(scores.max(axis=-1, keepdims=True)), want, tolerance) is None
    assert compare("norm", weights(some), want, tolerance) is not None


@pytest.mark.parametrize("size", [1, 64, 128])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_weights_in_16_bits_are_exact_enough_to_be_checked(dtype: str, size: int) -> None:
    """Of scores of 64 or 128 normal terms, exponentials err by as much as they are."""
    types: dict[str, Any] = {"dtype": dtype}
    task = Task.from_workload("transpose_batch_matmul_softmax", B=1, S=300, H=2, D=size, **types)
    inputs = task.inputs()
    (want,) = task.reference(inputs)
    (tolerance,) = tolerances(task, inputs, [want])
    assert Allowed.of(want, tolerance).telling > 0.2


@pytest.mark.parametrize("place", [(-1, -1), (0, 0), (-1,), (slice(None), -1)], ids=str)
@pytest.mark.parametrize(
    "types",
    [
        {"dtype": "float32"},
        {"dtype": "float64"},
        {"in_dtype": "bfloat16", "out_dtype": "bfloat16"},
        {"in_dtype": "float8_e4m3fn"},
    ],
    ids=str,
)
def test_a_norm_without_its_last_or_first_terms_is_wrong(
    types: dict[str, Any], place: tuple[Any, ...]
) -> None:
    """One of 10**6 normal numbers is 1e-6 of the sum."""
    task = Task.from_workload("norm_bmn", B=1, M=1000, N=1000, **types)
    (a,) = task.inputs()
    (want,) = task.reference([a])
    (tolerance,) = tolerances(task, [a], [want])
    assert np.isfinite(want.astype(float)).all()
    a[(0, *place)] = 0
    (found,) = task.reference([a])
    assert compare("D", found, want, tolerance) is not None


def test_a_norm_in_16_bits_without_its_last_term_is_wrong() -> None:
    task = Task.from_workload("norm_bmn", B=4, M=60, N=60, dtype="float16")
    (a,) = task.inputs()
    (want,) = task.reference([a])
    (tolerance,) = tolerances(task, [a], [want])
    a[:, -1, -1] = 0
    (found,) = task.reference([a])
    assert compare("D", found, want, tolerance) is not None


def test_long_norms_in_bfloat16_are_right() -> None:
    """Small terms are lost beside a sum of 16,000: normal ones made the result wrong by 60%."""
    task = Task.from_workload("norm_bmn", B=8, M=1, N=16_000, dtype="bfloat16")
    (a,) = task.inputs()
    (want,) = task.reference([a])
    (tolerance,) = tolerances(task, [a], [want])
    total = np.zeros(8, want.dtype)
    for term in a[:, 0].T:
        total = total + term * term
    assert compare("D", np.sqrt(total), want, tolerance) is None


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("wrong", ["no epsilon", "no mean", "mean not squared"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_layer_norm_without_one_of_its_parts_is_wrong(dtype: str, wrong: str, rows: int) -> None:
    """However long the rows are: the mean of normal numbers, and its square, would be small."""
    sizes = {"M": rows, "N": 8192}
    workload = workloads.get("layer_norm")
    inputs = workload.inputs(**sizes, dtype=dtype)
    (want,) = workload.reference(inputs, **sizes, dtype=dtype)
    a, gamma, beta = (array.astype(np.float64) for array in inputs)
    mean = a.mean(axis=1, keepdims=True)
    square = 0 if wrong == "mean not squared" else mean**2
    variance = (a**2).mean(axis=1, keepdims=True) - square
    rstd = 1 / np.sqrt(variance + (0 if wrong == "no epsilon" else 1e-5))
    found = (a - (0 if wrong == "no mean" else mean)) * rstd * gamma + beta
    assert compare("Y", found.astype(want.dtype), want) is not None


BIASED: dict[str, dict[str, Any]] = {
    "dense_bias_relu": {"M": 20, "N": 20, "K": 4096},
    "conv2d_nchw_bn_relu": {
        "N": 1,
        "H": 8,
        "W": 8,
        "CI": 256,
        "CO": 8,
        "K": 3,
        "stride": 1,
        "padding": 1,
    },
}


@pytest.mark.parametrize(
    "types",
    [
        {"dtype": "float16"},
        {"dtype": "bfloat16"},
        {"in_dtype": "int8", "acc_dtype": "float32"},
        {"in_dtype": "uint8", "acc_dtype": "bfloat16"},
        {"in_dtype": "int8", "acc_dtype": "float16"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("name", "left_out"),
    [("dense_bias_relu", 2), ("conv2d_nchw_bn_relu", 2), ("conv2d_nchw_bn_relu", 4)],
)
def test_a_bias_that_is_left_out_shows(name: str, left_out: int, types: dict[str, Any]) -> None:
    task = Task.from_workload(name, **BIASED[name], **types)
    inputs = task.inputs()
    (want,) = task.reference(inputs)
    (tolerance,) = tolerances(task, inputs, [want])
    inputs[left_out] = np.zeros_like(inputs[left_out])
    (found,) = task.reference(inputs)
    assert compare("relu", found, want, tolerance) is not None


def test_layer_norm_of_integers_has_rows_that_vary() -> None:
    (a, *_) = workloads.get("layer_norm").inputs(M=4, N=50, in_dtype="int16")
    assert (a.min(axis=1) < a.max(axis=1)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32"])
def test_a_pooling_whose_border_is_zero_is_wrong(dtype: str) -> None:
    sizes = {"N": 1, "C": 1, "H": 5, "W": 5, "K": 3, "stride": 2, "padding": 1}
    workload = workloads.get("max_pool2d_nchw")
    inputs = workload.inputs(**sizes, dtype=dtype)
    (want,) = workload.reference(inputs, **sizes, dtype=dtype)
    assert want.max() <= 0
    found = want.copy()
    found[:, :, [0, -1]], found[..., [0, -1]] = 0, 0
    assert compare("Y", found, want) is not None


def test_what_is_only_moved_has_any_value() -> None:
    args = {**small_args("max_pool2d_nchw"), "in_dtype": "int64"}
    (array,) = workloads.get("max_pool2d_nchw").inputs(**args)
    assert np.abs(array).max() > 2**61


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("matmul", {"M": 4, "N": 4}, "missing argument K"),
        ("matmul", {"M": 4, "N": 4, "K": 4, "k": 1}, "unknown argument 'k'"),
        ("matmul", {"M": 4.0, "N": 4, "K": 4}, "argument M must be an integer, found float"),
        ("matmul", {"M": True, "N": 4, "K": 4}, "argument M must be an integer"),
        ("matmul", {"M": -4, "N": 4, "K": 4}, "argument M must be at least 1, found -4"),
        ("matmul", {"M": 4, "N": 4, "K": 4, "dtype": "f32"}, "dtype must be one of"),
        ("softmax", {"M": 4, "N": 4, "dtype": "int32"}, "dtype must be one of"),
        (
            "conv1d_nlc",
            {"N": 1, "L": 2, "CI": 1, "CO": 1, "K": 5, "stride": 1, "padding": 1},
            "argument L=2 with padding 1 is smaller",
        ),
        (
            "conv2d_nhwc",
            {**small_args("conv2d_nhwc"), "groups": 3},
            "argument CI=4 must be a multiple of groups=3",
        ),
        (
            "max_pool2d_nchw",
            {**small_args("max_pool2d_nchw"), "padding": 3},
            "argument padding=3 must be smaller than K=3",
        ),
        (
            "conv2d_transpose_nhwc",
            {**small_args("conv2d_transpose_nhwc"), "padding": 3},
            "argument padding=3 must be at most",
        ),
        *(
            (
                "conv2d_transpose_nhwc",
                {"N": 1, "H": 5, "W": 1, "CI": 1, "CO": 1, "K": K, "stride": 2, "padding": K - 1},
                f"argument padding={K - 1} leaves nothing of the {K} elements that W=1 spreads out",
            )
            for K in (2, 3)  # an empty output, and one of less than nothing
        ),
    ],
)
def test_refuses_bad_arguments(name: str, args: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        workloads.get(name).tensors(**args)


def test_unknown_workload_names_a_close_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'matmul'"):
        workloads.get("matmull")


def test_output_size() -> None:
    assert output_size(56, 3, 1, 1) == 56
    assert output_size(28, 3, 2, 1, 2) == 13


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("columns", [1, 3])
def test_layer_norm_of_few_16_bit_floats(dtype: str, columns: int) -> None:
    """The variance is a difference of rounded numbers: it must not come out negative, or wrong."""
    task = Task.from_workload("layer_norm", M=64, N=columns, dtype=dtype, target=cpu_target(1))
    inputs = task.inputs(seed=0)
    found = np.zeros((64, columns), inputs[0].dtype)
    load(build_steps(task.dag, (), task.target))(*inputs, found)
    (expected,) = task.reference(inputs)
    assert compare("Y", found, expected) is None
