"""Code generators: a flat PrimFunc becomes LLVM assembly, CUDA source and object code."""
