"""Which buffers may share memory, how wide their elements are, copies of them for lanes."""
