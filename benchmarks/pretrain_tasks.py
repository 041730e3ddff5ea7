"""The tasks whose candidates benchmarks/pretrain.py measures.

None has the sizes of an operator in benchmarks/suite_operators.py, whose kernels are to show how
well a search does on sizes that the model has not seen.
"""

from __future__ import annotations

from typing import Any

from shapes import conv2d, image

Named = tuple[str, dict[str, Any]]


def _matmul(m: int, n: int, k: int, **types: str) -> Named:
    return "matmul", {"M": m, "N": n, "K": k, **types}


def _dense(m: int, n: int, k: int, **types: str) -> Named:
    return "dense_bias_relu", {"M": m, "N": n, "K": k, **types}


def _batch_matmul(b: int, m: int, n: int, k: int) -> Named:
    return "batch_matmul", {"B": b, "M": m, "N": n, "K": k}


def _conv1d(length: int, inputs: int, outputs: int, kernel: int, **others: int) -> Named:
    size = {"N": 1, "L": length, "CI": inputs, "CO": outputs, "K": kernel}
    return "conv1d_nlc", {**size, "stride": 1, "padding": kernel // 2, **others}


def _conv2d(*shape: int, **others: Any) -> Named:
    return "conv2d_nhwc", {**conv2d(*shape), **others}


def _depthwise(size: int, kernel: int, channels: int, **others: int) -> Named:
    around = {"padding": kernel // 2, **others}
    return "depthwise_conv2d_nhwc", image(size, kernel, C=channels, **around)


def _batch_norm(size: int, inputs: int, outputs: int, kernel: int = 3, **others: int) -> Named:
    around = {"padding": kernel // 2, **others}
    return "conv2d_nchw_bn_relu", image(size, kernel, CI=inputs, CO=outputs, **around)


def _conv3d(depth: int, size: int, inputs: int, outputs: int, **others: int) -> Named:
    return "conv3d_ndhwc", image(size, 3, D=depth, CI=inputs, CO=outputs, **others)


def _transposed(size: int, inputs: int, outputs: int, kernel: int = 4) -> Named:
    return "conv2d_transpose_nhwc", image(size, kernel, CI=inputs, CO=outputs, stride=2)


def _capsule(size: int, inputs: int, outputs: int, **others: int) -> Named:
    return "conv2d_capsule_nhwijc", image(size, 3, CI=inputs, CO=outputs, **others)


def _winograd(size: int, inputs: int, outputs: int) -> Named:
    return "conv2d_winograd_nhwc", {"N": 1, "H": size, "W": size, "CI": inputs, "CO": outputs}


def _attention(batch: int, length: int, heads: int, width: int) -> Named:
    size = {"B": batch, "S": length, "H": heads, "D": width}
    return "transpose_batch_matmul_softmax", size


def _max_pool(size: int, channels: int, kernel: int = 3, **others: int) -> Named:
    return "max_pool2d_nchw", image(size, kernel, C=channels, **others)


def _rows(op: str, m: int, n: int) -> Named:
    return op, {"M": m, "N": n}


def _norm(b: int, m: int, n: int) -> Named:
    return "norm_bmn", {"B": b, "M": m, "N": n}


TASKS: list[Named] = [
    _matmul(768, 768, 768),
    _conv2d(14, 192, 256),
    _depthwise(14, 3, 384),
    _batch_norm(56, 48, 64),
    _rows("layer_norm", 1024, 768),
    _batch_matmul(12, 384, 384, 64),
    _conv1d(1024, 128, 256, 3),
    _attention(1, 160, 8, 64),
    _matmul(512, 512, 512),
    _conv2d(56, 64, 64),
    _depthwise(28, 5, 240, stride=2),
    _transposed(16, 256, 128),
    _dense(64, 1000, 512),
    _conv3d(8, 28, 24, 64),
    _rows("softmax", 2048, 1000),
    _max_pool(112, 48, stride=2),
    _matmul(128, 2304, 768),
    _conv2d(224, 3, 48, 7, stride=2, padding=3),
    _depthwise(56, 3, 144),
    _batch_norm(14, 192, 256),
    _capsule(16, 32, 24),
    _norm(16, 256, 256),
    _matmul(500, 900, 333),
    _conv2d(28, 128, 256, 1, padding=0),
    _winograd(28, 128, 128),
    _dense(128, 3072, 512),
    _conv1d(128, 256, 256, 5, N=4),
    _depthwise(7, 3, 960),
    _rows("layer_norm", 197, 768),
    _rows("softmax", 500, 700),
    _matmul(1, 2048, 4096),
    _batch_norm(7, 384, 384),
    _conv2d(7, 448, 512),
    _max_pool(57, 24),
    _transposed(8, 192, 128),
    _attention(1, 90, 5, 40),
    _batch_matmul(8, 64, 512, 512),
    _conv3d(5, 13, 20, 24),
    _depthwise(33, 3, 21),
    _batch_norm(112, 3, 32, stride=2),
    _matmul(64, 64, 2048),
    _conv2d(26, 30, 50),
    _rows("layer_norm", 2048, 64),
    _rows("add_relu", 1000, 1000),
    _winograd(14, 192, 256),
    _depthwise(20, 5, 120),
    _dense(1, 4096, 1024),
    _conv1d(500, 40, 30, 7),
    _matmul(2048, 64, 96),
    _conv2d(56, 24, 144, 1, padding=0),
    _norm(5, 300, 200),
    _transposed(28, 64, 3),
    _batch_norm(28, 96, 128),
    _max_pool(28, 192),
    _depthwise(112, 3, 24, stride=2),
    _capsule(8, 12, 14),
    _rows("softmax", 4000, 12),
    _batch_matmul(7, 97, 70, 50),
    _conv3d(4, 56, 3, 32),
    _conv2d(13, 50, 70),
    _rows("layer_norm", 32, 4096),
    _attention(2, 384, 6, 64),
    _matmul(8, 1024, 1024),
    _depthwise(56, 5, 72, stride=2),
    _batch_norm(27, 30, 40),
    _conv2d(56, 64, 128, stride=2),
    _dense(16, 333, 800),
    _transposed(14, 64, 48, 3),
    _matmul(2048, 2048, 512),
    _winograd(56, 48, 64),
    _max_pool(56, 128, 2, stride=2, padding=0),
    _rows("softmax", 16, 20000),
    _conv1d(250, 64, 96, 3, stride=2),
    _depthwise(28, 3, 192),
    _conv2d(28, 24, 40, 5, padding=2),
    _batch_matmul(64, 16, 32, 16),
    _batch_norm(7, 160, 320),
    _rows("layer_norm", 200, 900),
    _matmul(33, 30, 40),
    _conv2d(14, 1024, 192, 1, padding=0),
    _norm(1, 900, 1000),
    _conv3d(16, 14, 64, 64, stride=2),
    _depthwise(14, 5, 480),
    _transposed(4, 384, 256),
    _capsule(7, 16, 20),
    _rows("add_relu", 500, 300),
    _batch_norm(56, 64, 128, 1, padding=0),
    _max_pool(27, 64, stride=2, padding=0),
    _conv2d(28, 128, 128, padding=2, dilation=2),
    _rows("layer_norm", 16, 6000),
    _matmul(1000, 2, 700),
    _conv2d(14, 64, 80, N=4),
    _attention(4, 64, 4, 32),
    _depthwise(48, 7, 96, padding=3),
    _conv1d(2000, 16, 24, 9),
    _dense(1, 1000, 1280),
    _winograd(7, 320, 320),
    _batch_norm(13, 30, 50),
    _rows("softmax", 64, 64),
    _matmul(512, 512, 512, in_dtype="int8"),
    _matmul(384, 768, 768, in_dtype="bfloat16"),
    _matmul(300, 512, 500, dtype="float16"),
    _conv2d(28, 128, 128, in_dtype="uint8", weight_dtype="int8"),
    _conv2d(28, 64, 96, in_dtype="bfloat16"),
    _dense(64, 1024, 1024, in_dtype="bfloat16"),
    _dense(48, 1000, 640, in_dtype="int8"),
    # From here on, searches started from a model that had learned from the tasks before.
    _depthwise(28, 5, 96),
    _max_pool(35, 40),
    _dense(4, 512, 768),
    _attention(1, 77, 6, 48),
    _depthwise(14, 3, 256),
    _batch_norm(28, 40, 60),
    _rows("layer_norm", 300, 512),
    _depthwise(56, 3, 40),
    _max_pool(14, 480),
    _conv2d(10, 96, 100),
    _dense(32, 700, 900),
    _depthwise(19, 3, 50),
    _capsule(9, 10, 18),
    _rows("softmax", 1000, 100),
    _depthwise(28, 7, 64, padding=3),
    _batch_norm(14, 128, 192),
    _attention(1, 200, 3, 50),
    _max_pool(100, 32, stride=2),
    _depthwise(75, 3, 12),
    _matmul(1, 1000, 3000),
    _norm(12, 150, 170),
    _depthwise(10, 5, 400),
    _conv1d(333, 24, 40, 5),
    _dense(20, 350, 650),
    _rows("layer_norm", 3000, 48),
    _depthwise(112, 5, 16),
    _conv2d(33, 20, 36, 5, padding=2),
    _batch_norm(7, 256, 384),
    _max_pool(40, 100, 2, stride=2, padding=0),
    _depthwise(7, 7, 768, padding=3),
    _transposed(9, 80, 36, 3),
    _attention(3, 60, 10, 32),
    _rows("add_relu", 700, 450),
    _depthwise(40, 3, 75),
    _winograd(20, 64, 96),
    _matmul(30, 500, 700),
    _max_pool(13, 128),
    _depthwise(24, 5, 33),
    _batch_norm(35, 24, 48),
    _conv3d(6, 10, 24, 36),
    _depthwise(64, 3, 128, stride=2),
    _rows("softmax", 12, 5000),
    _matmul(100, 50, 200),
    _rows("layer_norm", 24, 10000),
]
"""In an order in which the first 53, too, have every operator."""

_HALF = {"acc_dtype": "float32"}  # these use tensor cores

GPU_TASKS: list[Named] = [
    _matmul(1024, 1024, 1024),
    _conv2d(56, 64, 64),
    _matmul(2048, 2048, 2048, dtype="bfloat16", **_HALF),
    _rows("softmax", 4096, 1024),
    _matmul(512, 1000, 2048),
    _depthwise(112, 3, 32),
    _conv2d(56, 64, 64, N=8, dtype="float16", **_HALF),
    _rows("layer_norm", 4096, 1024),
    _dense(256, 1024, 1024),
    _batch_matmul(16, 512, 512, 64),
    _batch_norm(56, 64, 64),
    _max_pool(112, 64, stride=2),
    _conv2d(7, 512, 512),  # these reduce in slices
    _dense(32, 1000, 2048),
    _matmul(64, 64, 8192),
]
