"""Per-store features of a candidate: what the cost model sees, and datasets of them."""
