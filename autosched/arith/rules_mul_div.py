"""Rewrite rules of integer products, quotients and remainders.

The rules of (x*c1 + y) // c2 that need bounds of parts are in `rules_by_bounds.py`.
"""

MUL = """
(x + c1) * c2 -> x * c2 + c1 * c2
(x * c1) * c2 -> x * (c1 * c2)
~ min(x, y) * max(x, y) -> x * y
c1 * x => x * c1
x * (y * c1) => (x * y) * c1
(x - y) * c1 => (y - x) * (0 - c1) if c1 < 0
((x - x % c2) // c1) * c1 -> x - x % c2 if c1 != 0 and c2 % c1 == 0
"""

FLOORDIV = """
(x // c1) // c2 -> x // (c1 * c2) if c1 > 0 and c2 > 0
(x // c1 + c2) // c3 -> (x + c1 * c2) // (c1 * c3) if c1 > 0 < c3 and abs(c1 * c2) < 2**30
x // x -> 1 if divides(x)
(x * c1) // x -> c1 if divides(x)
(x % 2 + 1) // 2 -> x % 2
min(x * c1, y) // c2 -> min(x * (c1 // c2), y // c2) if c2 > 0 and c1 % c2 == 0
min(y, x * c1) // c2 -> min(y // c2, x * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
max(x * c1, y) // c2 -> max(x * (c1 // c2), y // c2) if c2 > 0 and c1 % c2 == 0
max(y, x * c1) // c2 -> max(y // c2, x * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) // c2 -> x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) // c2 -> x // (c2 // c1) if c1 > 0 and c2 > 0 and c2 % c1 == 0 and below(y + z, c1)
(x + c1) // c2 -> x // c2 + c1 // c2 if c2 > 0 and c1 % c2 == 0
(x * c1) // (x * c2) -> c1 // c2 if c2 != 0 and divides(x)
(x + y) // x -> y // x + 1 if lo(x) >= 0 and divides(x)
(y + x) // x -> y // x + 1 if lo(x) >= 0 and divides(x)
(x * y) // y -> x if divides(y)
(y * x) // y -> x if divides(y)
(x * z + y) // z -> x + y // z if lo(z) >= 0 and divides(z)
(z * x + y) // z -> x + y // z if lo(z) >= 0 and divides(z)
(y + x * z) // z -> y // z + x if lo(z) >= 0 and divides(z)
(y + z * x) // z -> y // z + x if lo(z) >= 0 and divides(z)
(x - x % c1) // c1 -> x // c1 if c1 != 0
y // z -> 0 if z.__class__ is not IntImm and lo(y) >= 0 and prove(y < z)
"""

FLOORMOD = """
(x * c1) % c2 -> 0 if c2 != 0 and c1 % c2 == 0
(x * c1) % c2 -> (x * (c1 % c2)) % c2 if c2 > 0 and c1 % c2 < abs(c1)
(x * c1 + y) % c2 -> (x % (c2 // c1)) * c1 + y if c1 > 0 < c2 and c2 % c1 == 0 and below(y, c1)
(x * c1 + y) % c2 -> (x * (c1 % c2) + y) % c2 if c2 > 0 and c1 % c2 < abs(c1)
(x + c1) % c2 -> (x + c1 % c2) % c2 if 0 < c2 < 2**30 and c1 % c2 != c1
(x * c1) % (x * c2) -> x * (c1 % c2) if c2 != 0
(x * y) % y -> 0
(y * x) % y -> 0
x % x -> 0
(x + z % y) % y -> 0 if prove((x + z) % y == 0)
(z % y + x) % y -> 0 if prove((x + z) % y == 0)
(x - x % z) % z -> 0
(x - x % c1) % c2 -> 0 if c1 == -c2
(x * z + y) % z -> y % z if z.__class__ is not IntImm
(z * x + y) % z -> y % z if z.__class__ is not IntImm
(y + x * z) % z -> y % z if z.__class__ is not IntImm
(y + z * x) % z -> y % z if z.__class__ is not IntImm
(x + z) % z -> x % z if z.__class__ is not IntImm
(z + x) % z -> x % z if z.__class__ is not IntImm
(x % z) % z -> x % z
y % z -> y if z.__class__ is not IntImm and lo(y) >= 0 and prove(y < z)
"""

TRUNC = """
tdiv(tdiv(x, c1), c2) -> tdiv(x, c1 * c2) if c1 > 0 and c2 > 0
tdiv(x, x) -> 1 if divides(x)
tdiv(x, c1) -> 0 if below(x, c1)
tdiv(x * c1, x * c2) -> c1 // c2 if c1 >= 0 and c2 > 0 and divides(x)
tdiv(x * c1, c2) -> x * (c1 // c2) if c2 > 0 and c1 % c2 == 0
tdiv(x + c1, c2) -> tdiv(x, c2) + c1 // c2 if c2 > 0 and c1 % c2 == 0 and min(lo(x), c1) >= 0
tdiv(x*c1 + y, c2) -> x*(c1 // c2) + tdiv(y, c2) if c1 >= c2 > 0 == c1 % c2 and lo(x) >= 0 <= lo(y)
tdiv(x + z, z) -> tdiv(x, z) + 1 if z.__class__ is not IntImm and lo(x) >= 0 <= lo(z) and divides(z)
tdiv(z + x, z) -> tdiv(x, z) + 1 if z.__class__ is not IntImm and lo(x) >= 0 <= lo(z) and divides(z)
tdiv(x * z + y, z) -> x + tdiv(y, z) if lo(z) >= 0 and lo(x) >= 0 and lo(y) >= 0 and divides(z)
tdiv(y, z) -> 0 if z.__class__ is not IntImm and lo(y) >= 0 and prove(y < z)
tdiv(x * y, y) -> x if divides(y)
tdiv(y * x, y) -> x if divides(y)
tmod(x * y, y) -> 0
tmod(y * x, y) -> 0
tmod(x * c1, c2) -> 0 if c2 != 0 and c1 % c2 == 0
tmod(x, x) -> 0
tmod(x, c1) -> x if below(x, c1)
tmod(tmod(x, c1), c2) -> tmod(x, c2) if c2 > 0 and c1 % c2 == 0
tmod(x + c1, c2) -> tmod(x, c2) if c2 > 0 and c1 % c2 == 0 and min(lo(x), c1) >= 0
tmod(x * c1 + y, c2) -> tmod(y, c2) if c2 > 0 and c1 % c2 == 0 and lo(x * c1) >= 0 and lo(y) >= 0
tmod(x + z, z) -> tmod(x, z) if z.__class__ is not IntImm and lo(z) >= 0 and lo(x) >= 0
tmod(z + x, z) -> tmod(x, z) if z.__class__ is not IntImm and lo(z) >= 0 and lo(x) >= 0
tmod(x * z + y, z) -> tmod(y, z) if lo(z) >= 0 and lo(x) >= 0 and lo(y) >= 0
tmod(y, z) -> y if z.__class__ is not IntImm and lo(y) >= 0 and prove(y < z)
"""
