"""Storage passes: sharing of memory between buffers, element widths, copies for lanes."""
