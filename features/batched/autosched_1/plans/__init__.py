"""The plans of many nests at once (`autosched.nest` plans one): lanes, tiles, orders, walks."""
