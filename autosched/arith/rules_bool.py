"""Rewrite rules of conditions: and, or, not.

`x` and `y` inside comparisons are integers here; conditions of other types do not match.
"""

AND = """
~ x == y and x != y -> 0
~ x and not x -> 0
x < y and y <= x -> 0
y <= x and x < y -> 0
x < y and y < x -> 0
x <= y and y < x -> 0
x and x -> x
x < c1 and c2 < x -> 0 if c2 + 1 >= c1
c2 < x and x < c1 -> 0 if c2 + 1 >= c1
x < c1 and c2 <= x -> 0 if c2 >= c1
c2 <= x and x < c1 -> 0 if c2 >= c1
x <= c1 and c2 < x -> 0 if c2 >= c1
c2 < x and x <= c1 -> 0 if c2 >= c1
x <= c1 and c2 <= x -> 0 if c2 > c1
c2 <= x and x <= c1 -> 0 if c2 > c1
x == c1 and x == c2 -> 0 if c1 != c2
x == c1 and x != c2 -> x == c1 if c1 != c2
x != c2 and x == c1 -> x == c1 if c1 != c2
x < c1 and x < c2 -> x < min(c1, c2)
c1 < x and c2 < x -> max(c1, c2) < x
x <= c1 and x <= c2 -> x <= min(c1, c2)
c1 <= x and c2 <= x -> max(c1, c2) <= x
x // c2 == c1 and x % c2 == c3 => x == c1 * c2 + c3 if c2 > 0 and 0 <= c3 < c2
x % c2 == c3 and x // c2 == c1 => x == c1 * c2 + c3 if c2 > 0 and 0 <= c3 < c2
x // c2 == c1 and x % c2 < c3 => c1 * c2 <= x and x < c1 * c2 + c3 if c2 > 0 and 0 < c3 <= c2
x % c2 < c3 and x // c2 == c1 => c1 * c2 <= x and x < c1 * c2 + c3 if c2 > 0 and 0 < c3 <= c2
x // c2 == c1 and c3 <= x % c2 => c1 * c2 + c3 <= x and x < (c1 + 1) * c2 if c2 > 0 and 0 <= c3 < c2
c3 <= x % c2 and x // c2 == c1 => c1 * c2 + c3 <= x and x < (c1 + 1) * c2 if c2 > 0 and 0 <= c3 < c2
(x and y) and x -> x and y
(x and y) and y -> x and y
x and (x and y) -> x and y
x and (y and x) -> y and x
x and (y and z) => (x and y) and z
"""

OR = """
~ x == y or x != y -> 1
~ x or not x -> 1
x < y or y <= x -> 1
y <= x or x < y -> 1
x <= y or y < x -> 1
y < x or x <= y -> 1
x or x -> x
x < c1 or c2 < x -> 1 if c2 < c1
c2 < x or x < c1 -> 1 if c2 < c1
x < c1 or c2 <= x -> 1 if c2 <= c1
c2 <= x or x < c1 -> 1 if c2 <= c1
x <= c1 or c2 < x -> 1 if c2 <= c1
c2 < x or x <= c1 -> 1 if c2 <= c1
x <= c1 or c2 <= x -> 1 if c2 <= c1 + 1
c2 <= x or x <= c1 -> 1 if c2 <= c1 + 1
x != c1 or x != c2 -> 1 if c1 != c2
x != c1 or x == c2 -> x != c1 if c1 != c2
x == c2 or x != c1 -> x != c1 if c1 != c2
x < c1 or x < c2 -> x < max(c1, c2)
c1 < x or c2 < x -> min(c1, c2) < x
x // c2 != c1 or x % c2 != c3 => x != c1 * c2 + c3 if c2 > 0 and 0 <= c3 < c2
x % c2 != c3 or x // c2 != c1 => x != c1 * c2 + c3 if c2 > 0 and 0 <= c3 < c2
x // c2 != c1 or c3 <= x % c2 => x < c1 * c2 or c1 * c2 + c3 <= x if c2 > 0 and 0 < c3 <= c2
c3 <= x % c2 or x // c2 != c1 => x < c1 * c2 or c1 * c2 + c3 <= x if c2 > 0 and 0 < c3 <= c2
x // c2 != c1 or x % c2 < c3 => x < c1 * c2 + c3 or (c1 + 1) * c2 <= x if c2 > 0 and 0 <= c3 < c2
x % c2 < c3 or x // c2 != c1 => x < c1 * c2 + c3 or (c1 + 1) * c2 <= x if c2 > 0 and 0 <= c3 < c2
(x or y) or x -> x or y
(x or y) or y -> x or y
x or (x or y) -> x or y
x or (y or x) -> y or x
x or (y or z) => (x or y) or z
"""

NOT = """
not not x -> x
not (x < y) -> y <= x
not (x <= y) -> y < x
not (x > y) -> x <= y
not (x >= y) -> x < y
not (x == y) -> x != y
not (x != y) -> x == y
not (x and y) => not x or not y
not (x or y) => not x and not y
"""
