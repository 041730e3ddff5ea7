"""What the CPU code generator decides about a loop nest, on numbers alone.

`transform/vector` describes a nest of the program as a `LoopNest`, asks for its plan and does what
it says; the features of a candidate describe their stores in the same way and read the same plan.
"""
