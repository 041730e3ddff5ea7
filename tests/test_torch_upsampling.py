"""Linear interpolation has kernels, whatever the sizes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched.torch  # noqa: E402
from kit.torch_models import Calls, agree, drawn, nearer  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any

SIZES: list[dict[str, Any]] = [
    {"scale_factor": 2},
    {"scale_factor": (3, 1)},
    {"scale_factor": 0.5},
    {"size": (10, 10)},
    {"size": (7, 2)},
    {"size": (1, 1)},
    {"size": (2, 1)},
    {"size": (6, 4)},
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("corners", [False, True])
def test_images(last: bool, corners: bool) -> None:
    def function(*images: Tensor) -> list[Tensor]:
        given = {"mode": "bilinear", "align_corners": corners}
        return [
            F.interpolate(x, **size, **given).relu() * 2
            for x in images
            for size in SIZES
            if 1 not in x.shape[2:] or "scale_factor" not in size
        ]

    memory_format = torch.channels_last if last else torch.contiguous_format
    shapes = (2, 3, 6, 4), (1, 4, 6, 4), (1, 2, 1, 5), (1, 1, 2, 2)
    images = [x.contiguous(memory_format=memory_format) for x in drawn(*shapes)]
    model = Calls(function).eval()
    fast = agree(model, *images)
    assert {r.kind for r in fast.report.replaced} == {"upsample_bilinear2d+relu+mul"}
    assert not fast.report.left_out
    pairs = zip(fast(*images), model(*images), strict=True)
    assert all(found.stride() == wanted.stride() for found, wanted in pairs)


def test_one_and_three_dimensions() -> None:
    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        return [
            F.interpolate(x, scale_factor=2, mode="linear"),
            F.interpolate(x, size=7, mode="linear", align_corners=True),
            F.interpolate(y, scale_factor=2, mode="trilinear"),
            F.interpolate(y, size=(3, 7, 5), mode="trilinear", align_corners=True),
        ]

    x, y = drawn((2, 3, 5), (2, 3, 5, 4, 3))
    for image in y, y.contiguous(memory_format=torch.channels_last_3d):
        report = agree(Calls(function).eval(), x, image).report
        assert [r.kind for r in report.replaced] == [
            "upsample_linear1d",
            "upsample_linear1d",
            "upsample_trilinear3d",
            "upsample_trilinear3d",
        ]


def test_places_in_long_rows() -> None:
    """PyTorch rounds places to float32; those of a kernel are exact."""
    x = drawn((1, 1, 4000))[0]
    model = Calls(lambda x: F.interpolate(x, scale_factor=3, mode="linear")).eval()
    tasks = agree(model, x, tolerance=1e-3)
    exact = model(x.double())
    assert (tasks(x) - exact).abs().max() < 1e-6


def test_in_bfloat16() -> None:
    model = Calls(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")).eval()
    nearer(model, torch.bfloat16, *drawn((2, 3, 6, 5)))


def test_what_stays() -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [
            F.interpolate(x, scale_factor=1.7, mode="bilinear"),  # the size is rounded
            F.interpolate(x, scale_factor=2, mode="bilinear", antialias=True),
            F.interpolate(x, scale_factor=2, mode="bicubic"),
        ]

    found = autosched.torch.tasks_of(Calls(function).eval(), *drawn((2, 3, 5, 4)))
    assert not found.found and len(found.left_out) == 3
    assert "its factors [1.7, 1.7] give no whole sizes of (5, 4)" in str(found)
