"""InferBound: the range of every loop."""
