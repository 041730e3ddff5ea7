"""The example of seed document 003: a sum and its exponential in a small type."""

from __future__ import annotations

from collections.abc import Sequence

SUM_THEN_EXP = """\
        C[i] = A_1[i] + B_1[i]
        D_1[i] = exp(C[i])"""


def example(
    small: str,
    middle: str,
    body: str = SUM_THEN_EXP,
    arch: str = "sm_80",
    scopes: Sequence[str] = ("", "", ""),
) -> str:
    """The text of the example: arrays of `small` in `scopes`, with a sum of type `middle`."""
    pointers = [f"pointer({small}" + (f', "{s}")' if s else ")") for s in scopes]
    params = ", ".join(f"{name}: {p}" for name, p in zip("ABD", pointers, strict=True))
    views = "".join(f"    {name}_1 = view({name}, (100,), {small})\n" for name in "ABD")
    return f"""\
def main({params}):
    attrs(target={{"kind": "cuda", "arch": "{arch}"}})
{views}    C = allocate((100,), {middle}, "global")
    for i in range(100):
{body}"""
