"""Translate `einsum: "bhid,bhjd->bhij"` to an index expression."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping, Sequence

from autosched.errors import ConfigError

RESULT = "out"


def expression_of(subscripts: str, ranks: Mapping[str, int]) -> str:
    """The statement for `subscripts` and inputs with so many axes (`ranks`); the result is `out`.

    Without `->` the result has the axes of `...`, then the letters that occur once, in alphabetical
    order, as in NumPy. Raises ConfigError for a malformed text or a wrong number of operands.
    """
    left, arrow, right = "".join(subscripts.split()).partition("->")
    operands, names = left.split(","), list(ranks)
    if len(operands) != len(names):
        raise ConfigError(
            f"einsum: {subscripts!r} has {len(operands)} operands, shapes has {len(names)} "
            f"({', '.join(names) or 'none'}); give one shape for each, in their order"
        )
    if "." in left + right:
        parts = [*operands, right] if arrow else operands
        operands, shared = _spelled_out(subscripts, parts, list(ranks.values()))
        right = operands.pop() if arrow else ""
    else:
        shared = ""
    letters = Counter("".join(operands))
    if not arrow:
        once = sorted(letter for letter, count in letters.items() if count == 1)
        right = shared + "".join(letter for letter in once if letter not in shared)
    for part in [*operands, right] if right else operands:
        if not (part.isascii() and part.isalpha()):
            what = "an operand without indices" if not part else f"{part!r}"
            raise ConfigError(f"einsum: {subscripts!r}: expected letters, found {what}")
    if not right:
        indices = ", ".join(letters)
        raise ConfigError(
            f"einsum: {subscripts!r}: the result has no letters; a single number is an `expr` with "
            f"an axis of length 1, out[o] = sum({indices}, ...), and shapes: {{out: [1]}}"
        )
    if len(set(right)) != len(right):
        raise ConfigError(f"einsum: {subscripts!r}: a letter occurs twice in the result")
    unknown = sorted(set(right) - set(letters))
    if unknown:
        raise ConfigError(f"einsum: {subscripts!r}: {unknown[0]!r} of the result is in no operand")
    if RESULT in names:
        raise ConfigError(f"einsum: the result is called {RESULT}; give that input another name")
    body = " * ".join(
        f"{name}[{', '.join(part)}]" for name, part in zip(names, operands, strict=True)
    )
    summed = [letter for letter in letters if letter not in right]
    if summed:
        body = f"sum({', '.join(summed)}, {body})"
    return f"{RESULT}[{', '.join(right)}] = {body}"


def _spelled_out(
    subscripts: str, parts: Sequence[str], ranks: Sequence[int]
) -> tuple[list[str], str]:
    """Replace `...` in the operands (and the result, if given) by letters; returns both.

    The axes under `...` are aligned at the end: an operand with fewer of them has the last ones.
    """
    if any(part.count("...") > 1 for part in parts):
        raise ConfigError(f"einsum: {subscripts!r}: ... occurs twice in an operand")
    counts = []
    for part, rank in zip(parts, ranks, strict=False):
        count = rank - len(part) + 3 if "..." in part else 0
        if count < 0:
            raise ConfigError(
                f"einsum: {subscripts!r}: {part} names {len(part) - 3} axes, its operand has {rank}"
            )
        counts.append(count)
    free = [letter for letter in string.ascii_letters if letter not in subscripts]
    if max(counts) > len(free):
        raise ConfigError(f"einsum: {subscripts!r}: more axes than there are letters")
    shared = "".join(free[: max(counts)])
    if len(parts) > len(ranks):
        counts.append(len(shared))
        if shared and "..." not in parts[-1]:
            raise ConfigError(
                f"einsum: {subscripts!r}: the result needs ... too; or write letters instead of ..."
            )
    spelled = [
        part.replace("...", shared[len(shared) - count :], 1)
        for part, count in zip(parts, counts, strict=True)
    ]
    return spelled, shared
