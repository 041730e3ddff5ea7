"""Arguments of the workloads that read images, for several benchmarks."""

from __future__ import annotations


def image(size: int, kernel: int, **others: int) -> dict[str, int]:
    """One square image, and a window with one size K."""
    return {"N": 1, "H": size, "W": size, "K": kernel, "stride": 1, "padding": 1, **others}


def conv2d(size: int, inputs: int, outputs: int, kernel: int = 3, **others: int) -> dict[str, int]:
    """The arguments of conv2d_nhwc on one square image."""
    channels = {"CI": inputs, "CO": outputs, "KH": kernel, "KW": kernel}
    return {"N": 1, "H": size, "W": size, **channels, "stride": 1, "padding": 1, **others}
