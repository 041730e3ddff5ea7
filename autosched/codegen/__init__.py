"""Code generation for the CPU: a flat PrimFunc becomes LLVM assembly, then object code."""
