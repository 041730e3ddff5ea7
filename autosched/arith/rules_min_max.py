"""Rewrite rules of minima and maxima of integers.

The rules of `max` are those of `min` with min and max exchanged.
"""

import re

MIN = """
min(x + c1, x + c2) -> x + min(c1, c2)
min(x + c1, x) -> x + min(c1, 0)
min(x, x + c1) -> x + min(c1, 0)
min(c1 - x, c2 - x) -> min(c1, c2) - x

min(min(x, y), x) -> min(x, y)
min(min(x, y), y) -> min(x, y)
min(x, min(x, y)) -> min(x, y)
min(y, min(x, y)) -> min(x, y)
~ min(max(x, y), x) -> x
~ min(max(x, y), min(x, y)) -> min(x, y)
~ min(max(x, y), max(x, z)) -> max(min(y, z), x)
~ min(min(x, y), min(x, z)) -> min(min(y, z), x)
min(min(min(x, y), z), y) -> min(min(x, y), z)
min(min(min(min(x, y), z), w), y) -> min(min(min(x, y), z), w)

~ min(x + y, x + z) -> min(y, z) + x
~ min(x + y, x) -> min(y, 0) + x
min(x - y, x - z) -> x - max(y, z)
min(y - x, z - x) -> min(y, z) - x
min(x, x - y) -> x - max(0, y)
min(x - y, x) -> x - max(0, y)

min(min(x, c1), c2) -> min(x, min(c1, c2))
min(x // c1, y // c1) -> min(x, y) // c1 if c1 > 0
min(x // c1, y // c1) -> max(x, y) // c1 if c1 < 0
min(x * c1, y * c1) -> min(x, y) * c1 if c1 > 0
min(x * c1, y * c1) -> max(x, y) * c1 if c1 < 0
min(x * c1, c2) -> min(x, c2 // c1) * c1 if c1 > 0 and c2 % c1 == 0
min(x * c1, c2) -> max(x, c2 // c1) * c1 if c1 < 0 and c2 % c1 == 0
min(c1, x) => min(x, c1)
min(min(x, c1), y) => min(min(x, y), c1) if y.__class__ is not IntImm
min(x, min(y, c1)) => min(min(x, y), c1) if x.__class__ is not IntImm
min(c1 - x, c2) => c1 - max(x, c1 - c2) if c2 != 0
"""

_EXCHANGED = {"min": "max", "max": "min"}
MAX = re.sub(r"\b(min|max)\b", lambda m: _EXCHANGED[m[1]], MIN)

ROUNDED = """
min(((x + c1) // c2) * c2, x) -> x if c2 > 0 and c1 + 1 == c2
min(x, ((x + c1) // c2) * c2) -> x if c2 > 0 and c1 + 1 == c2
max(((x + c1) // c2) * c2, x) -> ((x + c1) // c2) * c2 if c2 > 0 and c1 + 1 == c2
max(x, ((x + c1) // c2) * c2) -> ((x + c1) // c2) * c2 if c2 > 0 and c1 + 1 == c2
min(x, (x // c1) * c1) -> (x // c1) * c1 if c1 > 0
min((x // c1) * c1, x) -> (x // c1) * c1 if c1 > 0
max(x, (x // c1) * c1) -> x if c1 > 0
max((x // c1) * c1, x) -> x if c1 > 0
"""
