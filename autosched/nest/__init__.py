"""Decisions of the CPU code generator about a loop nest, made from numbers alone.

`transform/vector` describes a loop nest of the program as a `LoopNest`, asks for its plan and
applies the plan. The feature extractors describe a candidate's stores in the same way and read the
same plan.
"""
