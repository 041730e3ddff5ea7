"""Parts of models beyond single operators, for benchmarks/suite.py --chains.

Expressions of several stages and functions, with PyTorch's form of the same: layers with the
operations between them, attention, normalisation along any axes, windows, functions of many
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suite_operators import Call, Operator, Peer

Direct = Callable[..., Any]
"""A function of (torch, torch.nn.functional, *inputs) that returns the results."""


def _peer(function: Direct) -> Peer:
    def prepared(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
        return lambda: function(torch, torch.nn.functional, *inputs)

    return prepared


def _chain(
    name: str, expression: str, shapes: dict[str, list[int]], torch: Direct, flops: float = 0.0
) -> Operator:
    """An operator for the suite; `flops` counts those of products, 0 if only bytes limit it."""
    return Operator(name, expression, {}, _peer(torch), flops, shapes=shapes)


def _map(name: str, value: str, torch: Direct) -> Operator:
    """The operator of an element-wise function of a million numbers x."""
    return _chain(f"{name} of 1e6", f"Y[i] = {value}", {"x": [1_000_000]}, torch)


_SCORES = "S[h, i, j] = sum(d, Q[h, i, d] * K[h, j, d]) * 0.125; "
_MASK = "M[h, i, j] = S[h, i, j] if j <= i else -1000000.0; "
_PROBABILITIES = (
    "m[h, i] = max(j, {0}[h, i, j]); E[h, i, j] = exp({0}[h, i, j] - m[h, i]); "
    "s[h, i] = sum(j, E[h, i, j]); "
)
_QUOTIENTS = "P[h, i, j] = E[h, i, j] / s[h, i]; O[h, i, d] = sum(j, P[h, i, j] * V[h, j, d])"
_LATE = "A[h, i, d] = sum(j, E[h, i, j] * V[h, j, d]); O[h, i, d] = A[h, i, d] / s[h, i]"


def _attention(name: str, text: str, h: int, n: int, d: int, *, causal: bool = False) -> Operator:
    def torch(t: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.125)

    flops = 4.0 * h * n * n * d / (2 if causal else 1)
    return _chain(f"{name} {h}x{n}x{d}", text, {key: [h, n, d] for key in "QKV"}, torch, flops)


def _layers(name: str, between: str, torch: Direct) -> Operator:
    """Two linear layers, 128x512 by 512x2048 by 2048x512."""
    text = (
        f"H[i, j] = sum(k, X[i, k] * A[k, j]); R[i, j] = {between}; "
        "Y[i, j] = sum(k, R[i, k] * B[k, j])"
    )
    shapes = {"X": [128, 512], "A": [512, 2048], "B": [2048, 512]}
    return _chain(name, text, shapes, torch, 4.0 * 128 * 512 * 2048)


_GELU = "0.5 * H[i, j] * (1 + erf(H[i, j] * 0.70710678))"
_LINEAR = "; Y[i, j] = sum(k, R[i, k] * B[k, j])"

CHAINS: tuple[Operator, ...] = (
    _layers("layers, gelu", _GELU, lambda t, f, x, a, b: f.gelu(x @ a) @ b),
    _layers("layers, relu", "max(H[i, j], 0)", lambda t, f, x, a, b: t.relu(x @ a) @ b),
    _chain(
        "silu, linear 256x512x512",
        "R[i, k] = X[i, k] * sigmoid(X[i, k])" + _LINEAR,
        {"X": [256, 512], "B": [512, 512]},
        lambda t, f, x, b: f.silu(x) @ b,
        2.0 * 256 * 512 * 512,
    ),
    _chain(
        "scaled weights 256x512x512",
        "R[k, j] = B[k, j] * s[j]; Y[i, j] = sum(k, X[i, k] * R[k, j])",
        {"X": [256, 512], "B": [512, 512], "s": [512]},
        lambda t, f, b, s, x: x @ (b * s),
        2.0 * 256 * 512 * 512,
    ),
    _chain(
        "rms norm, linear 256x768x768",
        "v[i] = sum(k, X[i, k] * X[i, k]) / 768; R[i, k] = X[i, k] / sqrt(v[i] + 0.00001) * g[k]"
        + _LINEAR,
        {"X": [256, 768], "g": [768], "B": [768, 768]},
        lambda t, f, x, g, b: f.rms_norm(x, (768,), g, 1e-5) @ b,
        2.0 * 256 * 768 * 768,
    ),
    _attention("whole attention", _SCORES + _PROBABILITIES.format("S") + _QUOTIENTS, 12, 128, 64),
    _attention("late quotients", _SCORES + _PROBABILITIES.format("S") + _LATE, 12, 128, 64),
    _attention("whole attention", _SCORES + _PROBABILITIES.format("S") + _QUOTIENTS, 4, 1024, 64),
    _attention(
        "causal",
        _SCORES + _MASK + _PROBABILITIES.format("M") + _QUOTIENTS,
        8,
        256,
        64,
        causal=True,
    ),
    _chain(
        "softmax of columns 1000x512",
        "m[j] = max(i, X[i, j]); E[i, j] = exp(X[i, j] - m[j]); s[j] = sum(i, E[i, j]); "
        "Y[i, j] = E[i, j] / s[j]",
        {"X": [1000, 512]},
        lambda t, f, x: f.softmax(x, 0),
    ),
    _chain(
        "batch statistics 16x64x32x32",
        "m[c] = sum(n, h, w, X[n, c, h, w]) / 16384; "
        "v[c] = sum(n, h, w, X[n, c, h, w] * X[n, c, h, w]) / 16384; "
        "Y[n, c, h, w] = (X[n, c, h, w] - m[c]) / sqrt(v[c] - m[c] * m[c] + 0.00001)",
        {"X": [16, 64, 32, 32]},
        lambda t, f, x: f.batch_norm(x, None, None, None, None, True),
    ),
    _chain(
        "moving average 100 of 1e6",
        "Y[i] = sum(r, X[i + r]) / n[0]",
        {"X": [1_000_099], "n": [1], "Y": [1_000_000]},
        lambda t, f, x, n: f.avg_pool1d(x[None, None], 100, 1)[0, 0] * 100 / n,
    ),
    _chain(
        "sums of 5x5 of 1000x1000",
        "Y[h, w] = sum(r, s, X[h + r, w + s])",
        {"X": [1004, 1004], "Y": [1000, 1000]},
        lambda t, f, x: f.avg_pool2d(x[None], 5, 1)[0] * 25,
    ),
    _map("sin", "sin(x[i])", lambda t, f, x: t.sin(x)),
    _map("pow", "pow(abs(x[i]) + 0.1, 1.7)", lambda t, f, x: t.pow(t.abs(x) + 0.1, 1.7)),
    _map("log2", "log2(abs(x[i]) + 0.1)", lambda t, f, x: t.log2(t.abs(x) + 0.1)),
    _map("softplus", "max(x[i], 0) + log1p(exp(-abs(x[i])))", lambda t, f, x: f.softplus(x)),
    _map("atan", "atan(x[i])", lambda t, f, x: t.atan(x)),
)
"""The operators of --chains."""
