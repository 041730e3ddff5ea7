"""Winograd's algorithm: its matrices, its weights, and the convolution that comes out."""

from typing import Any

import numpy as np
import pytest

import autosched
from autosched import workloads
from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.runtime.cpu import load
from autosched.task import Task
from autosched.workloads.convolution import conv2d_nhwc_reference
from autosched.workloads.winograd import (
    TILES,
    faster_convolution,
    matrices,
    winograd_weights,
)


@pytest.mark.parametrize("tile", TILES)
def test_a_tile_of_a_line_is_filtered(tile: int) -> None:
    rng = np.random.default_rng(tile)
    line, window = rng.standard_normal(tile + 2), rng.standard_normal(3)
    inverse, weights, inputs = matrices(tile)
    found = inverse @ ((weights @ window) * (inputs @ line))
    np.testing.assert_allclose(found, np.correlate(line, window, "valid"), rtol=1e-12)


def test_small_tiles_have_the_matrices_of_the_paper() -> None:
    """Up to signs, which cancel."""
    inverse, weights, inputs = matrices(2)
    assert inverse.tolist() == [[1, 1, 1, 0], [0, 1, -1, 1]]
    assert np.abs(weights).tolist() == [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1]]
    assert np.abs(inputs).tolist() == [[1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 0, 1]]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    "n, h, w, padding", [(1, 8, 8, 1), (2, 7, 5, 1), (1, 9, 3, 0), (1, 1, 2, 2)]
)
def test_it_is_a_convolution(tile: int, n: int, h: int, w: int, padding: int) -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((n, h, w, 5)), rng.standard_normal((3, 3, 5, 4))
    args = {"N": n, "H": h, "W": w, "CI": 5, "CO": 4, "padding": padding}
    known = workloads.get("conv2d_winograd_nhwc")
    args64 = {**args, "tile": tile, "dtype": "float64"}
    (found,) = known.reference([x, winograd_weights(weights, tile)], **args64)
    (wanted,) = conv2d_nhwc_reference(
        [x, weights], **args, KH=3, KW=3, stride=1, dilation=1, groups=1
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_bias_and_relu_follow() -> None:
    known, sizes = workloads.get("conv2d_winograd_nhwc"), {"N": 1, "H": 5, "W": 4, "CI": 3, "CO": 6}
    inputs = known.inputs(**sizes, bias=1, relu=1)
    assert [a.shape for a in inputs] == [(1, 5, 4, 3), (6, 6, 3, 6), (6,)]
    (plain,) = known.reference(inputs[:2], **sizes)
    (found,) = known.reference(inputs, **sizes, bias=1, relu=1)
    np.testing.assert_allclose(found, np.maximum(plain + inputs[2], 0), rtol=1e-6, atol=1e-6)
    assert (found == 0).any() and (found > 0).any()


def test_random_weights_are_those_of_a_convolution() -> None:
    """Others would be magnified: rounding could not be told from a wrong kernel."""
    _, weights = workloads.get("conv2d_winograd_nhwc").inputs(N=1, H=4, W=4, CI=2, CO=3)
    _, own, _ = matrices(4)
    back = np.linalg.pinv(own)
    windows = np.einsum("re,sf,efio->rsio", back, back, weights)
    np.testing.assert_allclose(winograd_weights(windows), weights, rtol=1e-5, atol=1e-6)


def test_a_kernel_takes_transformed_weights() -> None:
    task = autosched.Task.from_workload("conv2d_winograd_nhwc", N=1, H=6, W=7, CI=4, CO=8, tile=2)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 6, 7, 4)).astype(np.float32)
    weights = rng.standard_normal((3, 3, 4, 8)).astype(np.float32)
    kernel = load(build_steps(task.dag, (), task.target))
    found = kernel(x, autosched.winograd_weights(weights, 2))
    args = {"N": 1, "H": 6, "W": 7, "CI": 4, "CO": 8, "KH": 3, "KW": 3, "stride": 1, "padding": 1}
    (wanted,) = conv2d_nhwc_reference([x, weights], **args, dilation=1, groups=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_sums_and_weights_have_32_bits_or_more() -> None:
    known = workloads.get("conv2d_winograd_nhwc")
    sizes = {"N": 1, "H": 8, "W": 8, "CI": 4, "CO": 4}
    tensors = known.tensors(**sizes, in_dtype="bfloat16", out_dtype="bfloat16")
    assert [t.dtype.name for t in tensors] == ["bfloat16", "float32", "bfloat16"]
    with pytest.raises(
        ConfigError, match="acc_dtype must be one of float32, float64, found 'float16'"
    ):
        known.tensors(**sizes, in_dtype="float16", acc_dtype="float16")


@pytest.mark.parametrize("shape, tile", [((3, 3, 4), 4), ((5, 5, 2, 2), 4), ((3, 3, 2, 2), 3)])
def test_other_weights_are_refused(shape: tuple[int, ...], tile: int) -> None:
    expected = (
        r"tile: expected 2, 4 or 6, found 3" if tile == 3 else r"shape \(3, 3, CI, CO\), found"
    )
    with pytest.raises(ConfigError, match=rf"winograd_weights: .*{expected}"):
        winograd_weights(np.zeros(shape), tile)


@pytest.mark.parametrize(
    "args, problem",
    [
        ({"tile": 5}, "tile must be 2, 4 or 6, found 5"),
        ({"relu": 2}, "relu must be 0 or 1, found 2"),
        ({"H": 1, "padding": 0}, "H=1"),
    ],
)
def test_wrong_arguments(args: dict[str, int], problem: str) -> None:
    sizes = {"N": 1, "H": 8, "W": 8, "CI": 4, "CO": 4}
    with pytest.raises(ConfigError, match=rf"conv2d_winograd_nhwc: argument {problem}"):
        workloads.get("conv2d_winograd_nhwc").tensors(**{**sizes, **args})


PLAIN: dict[str, Any] = {
    "N": 1,
    "H": 14,
    "W": 14,
    "CI": 16,
    "CO": 16,
    "KH": 3,
    "KW": 3,
    "stride": 1,
    "padding": 1,
}


def test_what_a_plain_convolution_is_by_winograds_algorithm() -> None:
    plain = Task.from_workload("conv2d_nhwc", **PLAIN)
    faster = faster_convolution(plain.workload.to_json())
    assert faster is not None
    tiles = Task.from_json_workload(faster, "cpu")
    image, weights = plain.inputs()
    transformed = winograd_weights(weights)
    (found,), (expected,) = tiles.reference([image, transformed]), plain.reference([image, weights])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "other",
    [
        {"KH": 1},
        {"stride": 2},
        {"dilation": 2},
        {"groups": 2},
        {"dtype": "float64"},
        {"in_dtype": "int8"},
        {"CO": 15},
        {"H": 12, "W": 16},  # 3 x 4 tiles
    ],
)
def test_where_it_would_not_be_equal_or_not_faster(other: dict[str, Any]) -> None:
    plain = Task.from_workload("conv2d_nhwc", **{**PLAIN, **other})
    assert faster_convolution(plain.workload.to_json()) is None


def test_another_operator_has_none() -> None:
    assert faster_convolution({"op": "matmul", "args": {"dtype": "float32"}}) is None
