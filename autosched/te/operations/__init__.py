"""The declaration of tensor programs: tensors, operations, reductions, intrinsics."""
