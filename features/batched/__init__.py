"""The rows of `ansor-0.19` for thousands of candidates at once, as arithmetic on arrays.

The folder `autosched_1` does the same for that set. Terms used here:

    structure    what the steps of a candidate do, apart from their numbers
    plan         the stages and loops of a structure, and which numbers make which factor
    program      what candidates compute, whatever their loops
    population   candidates of one program, as arrays whose last axis is the candidate
    slot         the number of a loop of a population
    form         an index as a sum of digits of loop variables (`forms.py`)
    text         an index as an expression, where it is no form

A docstring that begins with "Where" describes flags, which are set for the candidates for which it
holds. A candidate without a rule in array form is refused here, and computed one by one.
"""
