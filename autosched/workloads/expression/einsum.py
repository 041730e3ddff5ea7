"""`einsum: "bhid,bhjd->bhij"` as an index expression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autosched.errors import ConfigError

RESULT = "out"


def expression_of(subscripts: str, names: Sequence[str]) -> str:
    """The statement that `subscripts` mean for inputs called `names`; the result is `out`.

    Without `->` the result has the letters that occur once, in alphabetical order, as in NumPy.
    Raises ConfigError for a malformed text or a wrong number of operands.
    """
    text = "".join(subscripts.split())
    if "." in text:
        raise ConfigError(
            f"einsum: {subscripts!r}: ... is not allowed; name every axis by a letter"
        )
    left, arrow, right = text.partition("->")
    operands = left.split(",")
    if len(operands) != len(names):
        raise ConfigError(
            f"einsum: {subscripts!r} has {len(operands)} operands, shapes has {len(names)} "
            f"({', '.join(names) or 'none'}); give one shape for each, in their order"
        )
    letters = Counter("".join(operands))
    if not arrow:
        right = "".join(sorted(letter for letter, count in letters.items() if count == 1))
    for part in (*operands, right):
        if not (part.isascii() and part.isalpha()):
            what = "an operand without indices" if not part else f"{part!r}"
            raise ConfigError(f"einsum: {subscripts!r}: expected letters, found {what}")
    if len(set(right)) != len(right):
        raise ConfigError(f"einsum: {subscripts!r}: a letter of the result stands there twice")
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
