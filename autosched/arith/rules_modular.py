"""Rewrite rules that hold for every integer type, also where sums and products wrap.

The rules of sums and products are laws of arithmetic modulo a power of two. The rules of minima and
maxima need only an order.
"""

import re

_SUMS = """
~ (x - y) + y -> x
(x - y) + (y - z) -> x - z
(x - y) + (z - x) -> z - y
~ max(x, y) + min(x, y) -> x + y
~ (x // y) * y + x % y -> x if divides(y)
~ tdiv(x, y) * y + tmod(x, y) -> x if divides(y)
(x + c1) + c2 -> x + (c1 + c2)

x - x -> 0
(x + y) - y -> x
(x + y) - x -> y
x - (y + x) -> 0 - y
x - (x + y) -> 0 - y
(x - y) - x -> 0 - y
x - (x - y) -> y
~ (x + y) - (x + z) -> y - z
min(x, y) - min(y, x) -> 0
max(x, y) - max(y, x) -> 0

~ min(x, y) * max(x, y) -> x * y
(x * c1) * c2 -> x * (c1 * c2)
"""

_MIN = """
min(min(x, y), x) -> min(x, y)
min(min(x, y), y) -> min(x, y)
min(x, min(x, y)) -> min(x, y)
min(y, min(x, y)) -> min(x, y)
~ min(max(x, y), x) -> x
~ min(max(x, y), min(x, y)) -> min(x, y)
~ min(max(x, y), max(x, z)) -> max(min(y, z), x)
~ min(min(x, y), min(x, z)) -> min(min(y, z), x)
min(min(x, c1), c2) -> min(x, min(c1, c2))
"""

_EXCHANGED = {"min": "max", "max": "min"}
MODULAR = _SUMS + _MIN + re.sub(r"\b(min|max)\b", lambda m: _EXCHANGED[m[1]], _MIN)
