"""Rewrite rules of integer comparisons.

Only `<` and `==` have rules: other comparisons are reduced to them (`rewrite_logic.py`).
"""

LESS = """
~ x + y < x + z -> y < z
y - x < z - x -> y < z
x - y < x - z -> z < y
~ x < x + z -> 0 < z
~ x + z < x -> z < 0
x < x - z -> z < 0
x - z < x -> 0 < z
c1 < x + c2 -> c1 - c2 < x
c1 < c2 - x -> x < c2 - c1
x * c1 < y * c1 -> x < y if c1 > 0
x * c1 < y * c1 -> y < x if c1 < 0
x * c2 < c1 -> x < (c1 - 1) // c2 + 1 if c2 > 0
x * c2 < c1 -> (0 - c1) // (0 - c2) < x if c2 < 0
c1 < x * c2 -> c1 // c2 < x if c2 > 0
c1 < x * c2 -> x < (0 - c1 - 1) // (0 - c2) + 1 if c2 < 0
x // c1 < c2 -> x < c1 * c2 if c1 > 0
c1 < x // c2 -> (c1 + 1) * c2 - 1 < x if c2 > 0
(x // c1) * c1 < x -> 0 < x % c1 if c1 > 0
(x // c1) * c1 < x + y -> 0 < x % c1 + y if c1 > 0
(x // c1) * c1 < x - y -> y < x % c1 if c1 > 0
((x + c2) // c1) * c1 < x -> c2 < (x + c2) % c1 if c1 > 0
((x + c2) // c1) * c1 < x + y -> c2 < (x + c2) % c1 + y if c1 > 0
((x + c2) // c1) * c1 < x - y -> y + c2 < (x + c2) % c1 if c1 > 0

min(x, y) < z => x < z or y < z
max(x, y) < z => x < z and y < z
z < min(x, y) => z < x and z < y
z < max(x, y) => z < x or z < y
x < c1 - y => x + y < c1 if x.__class__ is not IntImm
c1 - x < c2 -> c1 - c2 < x
c1 - y < x => c1 < x + y if x.__class__ is not IntImm
x + c1 < c2 => x < c2 - c1
x - c1 < c2 => x < c2 + c1
"""

EQUAL = """
c1 == x => x == c1 if x.__class__ is not IntImm
x - c1 == c2 -> x == c1 + c2
c1 - x == c2 -> x == c1 - c2
x + c1 == c2 -> x == c2 - c1
x * y == 0 => x == 0 or y == 0
x - y == 0 -> x == y
"""
