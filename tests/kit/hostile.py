"""Real files with something odd in them, with which benchmarks/fuzz.py tests every reader.

Each function draws one input, which depends on the state of the generator alone.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Draw = random.Random


def odd(draw: Draw) -> Any:
    """A value that hardly fits where it is put."""
    return copy.deepcopy(draw.choice(_ODD))


_ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 3, 2**31, 2**63, 2**64 + 1, -(2**31)),
    *(10**400, 0.5, 1e308, -1e-308, float("nan"), float("inf"), -0.0),
    *("", " ", "x", "\0", "a\nb", "1", "NaN", "\ud800", "\u0661", "A" * 5000),
    *("../../escaped", "/dev/zero", "pipe", ".", "ops.py:run", "../x.npy"),
    *("pickled.npy", "huge.npy", "odd.npy", "ops.py", "secret\0.npy"),
    *("cuda", "float16", "bool", "C[i] = C[i]", "ij,jk->ik", "i,->"),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": 1}}, [1, "2", None]),
    *({"file": "pipe", "sha256": "0" * 16}, {"file": "/dev/zero"}, {"file": "huge.npy"}),
    *({"function": "ops.py:run"}, {"uniform": [0, 10**400]}),
    *({"python": "ops.py:run", "args": {}}, json.loads("[" * 300 + "]" * 300)),
    {"expr": "B[i] = A[i]" + " + A[i]" * 400, "shapes": {"A": [4]}},
    {"op": "matmul", "args": {"M": 2**31 - 1, "N": 2**31 - 1, "K": 2**31 - 1}},
    {"op": "matmul", "args": {"M": 10**5, "N": 10**5, "K": 1}},
    list(range(2000)),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) pair inside `value`."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        node = todo.pop()
        keys: Any = node if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                todo.append(node[key])
    return found


def changed(value: Any, draw: Draw) -> Any:
    """`value`, JSON, with one to three values replaced, removed, duplicated or exchanged."""
    result = json.loads(json.dumps(value))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = places(result)
        if not at:
            return odd(draw)
        container, key = draw.choice(at)
        match draw.randrange(8):
            case 0:
                del container[key]
            case 1 if isinstance(container, list):
                container.insert(key, container[key])
            case 2:
                other, there = draw.choice(at)
                with contextlib.suppress(LookupError):
                    container[key] = json.loads(json.dumps(other[there]))
            case 3 if isinstance(container[key], int | float):
                container[key] = container[key] * draw.choice((-1, 2, 3, 1000)) + draw.choice(
                    (0, 1)
                )
            case 4 if isinstance(container, dict):
                container[draw.choice(("file", "python", "x", ""))] = container.pop(key)
            case 5 if isinstance(container[key], str):
                container[key] = damaged(container[key].encode(errors="replace"), draw).decode(
                    errors="replace"
                )
            case _:
                container[key] = odd(draw)
    return result


def damaged(data: bytes, draw: Draw) -> bytes:
    """`data` truncated, or with bytes changed, removed or duplicated."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(result) + 1)
        match draw.randrange(5):
            case 0:
                del result[at:]
            case 1:
                result[at : at + 1] = bytes([draw.randrange(256)])
            case 2:
                del result[at : at + draw.randrange(1, 20)]
            case 3:
                result[at:at] = draw.choice((b"\0", b"[", b"{", b'"', b"\n", b"-", b"9" * 30, b"*"))
            case 4:
                result[at:at] = result[at : at + draw.randrange(1, 50)]
    return bytes(result)


def lines(draw: Draw, base: Sequence[Any]) -> bytes:
    """A log of the entries `base`, with one or two odd lines."""
    lines = [json.dumps(entry).encode() for entry in base]
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.choice([k for k, e in enumerate(base) if "hash" in e] * 2 + [*range(len(base))])
        if draw.random() < 0.9:
            lines[at] = json.dumps(changed(base[at], draw)).encode()
        else:
            lines[at] = damaged(lines[at], draw)
    return b"\n".join(lines) + b"\n"


_TREE: tuple[Callable[[Draw], str], ...] = (
    lambda d: "A[" * d.randrange(1, 400) + "i" + "]" * d.randrange(1, 400),
    lambda d: "-" * d.choice((1, 50, 99, 800, 20_000)) + "A[i, j]",
    lambda d: " + ".join(["A[i, j]"] * d.choice((3, 17, 400, 3000))),
    lambda d: " * ".join(["A[i, j]"] * d.choice((3, 17, 99, 400))),
    lambda d: "(" * d.choice((3, 90, 500)) + "A[i, j]" + ")" * d.choice((3, 90, 500)),
    lambda d: f"A[i, j] + {d.choice((2**31, 2**63, 10**400, '9' * 5000, '1e999', '1e-999', '1j'))}",
    lambda d: f"A[i + {d.choice((1, -1, 2**31, 2**62, 10**30))}, j * {d.randrange(-3, 2**33)}]",
    lambda d: "A[i, j] if " * d.choice((1, 60, 200)) + "i" + " else 0" * d.choice((1, 60, 200)),
    lambda d: "not " * d.choice((1, 50, 300)) + "A[i, j]",
    lambda d: f"A[i, j] ** {d.choice((2, 64, 65, -1, 0.5, 10**9, '2 ** 2 ** 2 ** 2 ** 9'))}",
    lambda d: f"{2**40} ** {2**20} + A[i, j]",
    lambda d: f"1 << {10**9} | int32(A[i, j])",
    lambda d: d.choice(("__import__('os').system('touch ran')", "open('ran', 'w')", "f'{A}'")),
    lambda d: d.choice(
        ("(lambda: 0)()", "[k for k in A]", "A.x", "A[i][j]", "A[i:j]", "*A", "...")
    ),
    lambda d: d.choice(("sum(k, A[i, k])", "sum(i, A[i, j])", "sum(A)", "max(k, r, A[k, r])")),
    lambda d: d.choice(("A[i // 0, j]", "A[i, j] // 0", "A[i % 0, j]", "A[i, A[i, j]]", "i / 0")),
    lambda d: "".join(d.choices("AiIjk[]()+-*/%<>=, 0123456789.&|^~!@#:;'\"\\\n\t\0é", k=40)),
)


def expression(draw: Draw) -> dict[str, Any]:
    """The arguments of a random expression, often a hostile one."""
    text = f"{draw.choice(('C[i, j]', 'C[i, i]', 'C', 'C[0, j]', 'C[i]', 'C[i, j]'))} = "
    text += draw.choice(_TREE)(draw)
    if draw.random() < 0.3:
        text = damaged(text.encode(), draw).decode(errors="replace")
    entry = {"expr": text, "shapes": {"A": [5, 5]}, "dtype": draw.choice(("float32", "int64"))}
    if draw.random() < 0.2:
        entry = changed(entry, draw)
    return entry if isinstance(entry, dict) else {"expr": text}


_YAML: tuple[Callable[[Draw], str], ...] = (
    lambda d: "workload: " + "[" * d.choice((50, 500, 5000)) + "]" * d.choice((50, 500, 5000)),
    lambda d: "workload: " + "{a: " * d.choice((50, 500, 3000)) + "1" + "}" * 50,
    lambda d: "\n".join("  " * k + "a:" for k in range(d.choice((50, 400, 1500)))),
    lambda d: "- " * d.choice((50, 3000)) + "a",
    lambda d: (
        "a0: &a0 [x, x]\n"
        + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 30))
        + "workload: *a29\n"
    ),
    lambda d: (
        "a0: &a0 {x: 1}\n"
        + "".join(f"a{k}: &a{k} {{a: *a{k - 1}, b: *a{k - 1}}}\n" for k in range(1, 60))
        + "workload: *a59\n"
    ),
    lambda d: d.choice(("workload: &a [*a]\n", "workload: &a {op: *a}\n", "&a workload: *a\n")),
    lambda d: "workload: &a\n  op: matmul\n  <<: *a\n",
    lambda d: f"search: {{trials: {'9' * d.choice((20, 400, 5000))}}}\n",
    lambda d: f"search: {{trials: 0x{'f' * d.choice((20, 400, 9000))}}}\n",
    lambda d: f"search: {{trials: {'1:' * d.choice((3, 30, 400))}1}}\n",
    lambda d: "workload: !!python/object/apply:os.system ['touch ran']\n",
    lambda d: "workload: !!python/name:ops.run\nname: !ran x\n",
    lambda d: (
        f"{d.choice(('? [a, b]', '1', 'null', '1.5', '2020-01-01', '!!binary aGk=', '~'))}: 1\n"
    ),
    lambda d: (
        f"name: {d.choice(('../esc', '/etc/x', '.', '..', 'a/b', '[1]', '{a: 1}', '2020-01-01'))}\n"
    ),
    lambda d: f"records: {d.choice(('../esc', '/dev/zero', '.', 'pipe', '[1]', '5', 'ops.py'))}\n",
    lambda d: (
        f"inputs: {{A: {{file: {d.choice(('/dev/zero', 'pipe', 'huge.npy', 'pickled.npy'))}}}}}\n"
    ),
    lambda d: f"inputs: {{A: {{constant: {d.choice(('1' * 500, '.nan', '.inf', '[1]', 'x'))}}}}}\n",
    lambda d: (
        f"measure: {{cache_flush: {d.choice(('9' * 30, '9 EiB', '-1', '[1]', '.inf', '1e400'))}}}\n"
    ),
    lambda d: f"target: {{threads: {d.choice(('0', '-1', '9' * 20, '1.5', 'x'))}}}\n",
    lambda d: (
        f"workload: {{op: matmul, args: {{M: {d.choice(('9' * 30, '-1', '[1]', '1.5', '{}'))}}}}}\n"
    ),
    lambda d: "%YAML 9.9\n---\na: 1\n---\nb: 2\n",
    lambda d: "".join(d.choices("abc:{}[]&*!|>'\"%@`#-,? \n\t0123\u2028\ufeff\0", k=60)),
)


def yaml(draw: Draw, base: Sequence[str]) -> bytes:
    """A configuration: a real one with lines replaced or added, or damaged bytes."""
    lines = draw.choice(base).splitlines()
    match draw.randrange(4):
        case 0:
            at = draw.randrange(len(lines))
            lines[at] = draw.choice(_YAML)(draw)
        case 1:
            head = draw.choice(_YAML)(draw).splitlines()
            key = head[0].partition(":")[0] if head else ""
            lines = head + [line for line in lines if not line.startswith(key)]
        case 2:
            at = draw.randrange(len(lines))
            key, colon, _ = lines[at].partition(":")
            text = json.dumps(odd(draw)) if draw.random() < 0.7 else draw.choice(lines)
            lines[at] = f"{key}{colon} {text}"
        case 3:
            return damaged("\n".join(lines).encode(), draw)
    return "\n".join(lines).encode(errors="replace") + b"\n"


def dataset(draw: Draw, base: dict[str, bytes]) -> tuple[str, bytes]:
    """A suffix, and the bytes of a dataset file with that suffix."""
    suffix = draw.choice(tuple(base))
    data = base[suffix]
    if suffix == ".npz" and draw.random() < 0.6:
        return suffix, _npz(draw, data)
    if suffix == ".csv" and draw.random() < 0.6:
        rows = [line.split(b",") for line in data.split(b"\r\n")]
        for _ in range(draw.choice((1, 1, 3))):
            row = draw.choice(rows)
            value = draw.choice((b"", b"x", b"nan", b"1e999", b'"', b"\0", b"-1", b"9" * 200_000))
            row[draw.randrange(len(row))] = value
        return suffix, b"\r\n".join(b",".join(row) for row in rows)
    if draw.random() < 0.15:
        return suffix, draw.choice((b"", b"PK\x03\x04", b"PAR1", b"PAR1PAR1", *base.values()))
    return suffix, damaged(data, draw)


def _npz(draw: Draw, data: bytes) -> bytes:
    """The archive with one array of another type, length or header, or without that array."""
    arrays = {k: v for k, v in np.load(io.BytesIO(data)).items() if isinstance(v, np.ndarray)}
    name = draw.choice(tuple(arrays))
    array, raw = arrays[name], b""
    match draw.randrange(6):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = np.array([odd(draw) for _ in range(3)], object)
        case 2:
            arrays[name] = (
                array.ravel()[:1]
                if draw.random() < 0.5
                else np.concatenate([np.atleast_1d(array)] * 2)
            )
        case 3:
            kind = draw.choice((np.float64, np.int8, "U5", "S3", np.complex64, "datetime64[s]"))
            with contextlib.suppress(TypeError, ValueError):
                arrays[name] = np.full(array.shape, -7).astype(kind)
        case 4:
            arrays[name] = np.array(draw.choice(("{", "[]", '{"workload": []}', 7, -1, np.nan)))
        case 5:
            shape = draw.choice(
                ("(99999999999,)", "(-1,)", "(1e3,)", "'x'", "(" * 500, "()", "(2**9,)")
            )
            head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
            raw = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for key, value in arrays.items():
            member = io.BytesIO()
            np.save(member, value)
            archive.writestr(f"{key}.npy", raw if raw and key == name else member.getvalue())
    return out.getvalue()


def model(draw: Draw, base: dict[str, Any]) -> bytes:
    """A saved cost model with odd content, perhaps compressed."""
    if draw.random() < 0.8:
        raw = json.dumps(changed(base, draw)).encode()
    else:
        raw = damaged(json.dumps(base).encode(), draw)
    if draw.random() < 0.2:
        raw = gzip.compress(raw, 1)
        return damaged(raw, draw) if draw.random() < 0.5 else raw
    return raw
