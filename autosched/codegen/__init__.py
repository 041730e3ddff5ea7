"""Code generation: a flat PrimFunc becomes LLVM assembly and object code, or CUDA C and a cubin."""
