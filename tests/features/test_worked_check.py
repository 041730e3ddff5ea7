"""The worked check of the feature specification: matmul 64x64x64 followed by max(C, 0)."""

import numpy as np
import pytest

from autosched import te
from autosched.features.ansor.names import FEATURE_NAMES
from autosched.features.ansor.rows import features_from_func
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.transform.expressions.simplify import Simplify
from kit.types import Array


@pytest.fixture(scope="module")
def rows() -> Array:
    A = te.placeholder((64, 64), name="A")
    B = te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((64, 64), lambda i, j: te.max(C[i, j], te.const(0.0)), name="D")
    func = schedule_to_prim_func(te.create_schedule(D.op), [A, B, D])
    return features_from_func(Simplify()(func), log_scale=False)


def values(row: Array, **expected: int) -> bool:
    return {
        name: float(row[FEATURE_NAMES.index(name.replace("__", "."))]) for name in expected
    } == pytest.approx(expected, rel=1e-4)


def test_the_reduction(rows: Array) -> None:
    d, c = rows
    assert values(
        c,
        float_addsub=262144,
        float_mul=262144,
        outer_prod=262144,
        num_loops=3,
        alloc_size=16384,
        alloc_prod=4096,
        alloc_outer_prod=1,
        alloc_inner_prod=262144,
    )
    assert values(d, float_cmp=4096, num_loops=2)


def test_the_slots_of_the_reduction(rows: Array) -> None:
    _, c = rows
    assert values(
        c,
        B0__acc_type__kRead=1,
        B0__bytes=1048576,
        B0__unique_bytes=16384,
        B0__lines=262144,
        B0__unique_lines=256,
        B0__reuse_type__kLoopMultipleRead=1,
        B0__reuse_dis_iter=4096,
        B0__reuse_dis_bytes=17152,
        B0__reuse_ct=64,
        B0__stride=64,
    )
    assert values(
        c,
        B1__lines=16384,
        B1__reuse_dis_iter=64,
        B1__reuse_dis_bytes=516,
        B1__reuse_ct=64,
        B1__stride=1,
    )
    assert values(
        c,
        B2__acc_type__kReadWrite=1,
        B2__lines=256,
        B2__stride=0,
        B2__reuse_dis_iter=1,
        B2__reuse_dis_bytes=12,
        B2__reuse_ct=64,
    )


def test_the_element_wise_stage(rows: Array) -> None:
    d, _ = rows
    for slot, kind in (("B0", "kRead"), ("B1", "kWrite")):
        assert values(
            d,
            **{
                f"{slot}__acc_type__{kind}": 1,
                f"{slot}__bytes": 16384,
                f"{slot}__lines": 256,
                f"{slot}__reuse_type__kNoReuse": 1,
                f"{slot}__bytes_d_reuse_ct": 32768,
                f"{slot}__stride": 1,
            },
        )


def test_arithmetic_intensity(rows: Array) -> None:
    d, c = rows
    curve = [FEATURE_NAMES.index(f"arith_intensity_curve_{k}") for k in range(10)]
    np.testing.assert_allclose(d[curve], 0.125, rtol=1e-5)
    np.testing.assert_allclose(c[curve][[0, 1, 9]], [1.3576, 2.3919, 10.6667], rtol=1e-4)


def test_logarithms_keep_the_one_hots(rows: Array) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + te.const(1.0), name="B")
    func = schedule_to_prim_func(te.create_schedule(B.op), [A, B])
    plain = features_from_func(func, log_scale=False)
    scaled = features_from_func(func)
    for k, name in enumerate(FEATURE_NAMES):
        one_hot = "_type." in name or name == "is_gpu"
        expected = plain[0, k] if one_hot else np.log2(plain[0, k] + 1)
        assert scaled[0, k] == pytest.approx(expected, rel=1e-6)
