"""Plan many nests at once (`autosched.nest` plans one): lanes, tiles, orders, memory traffic."""
