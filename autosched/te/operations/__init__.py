"""What is computed: tensors, operations, reductions, intrinsics."""
