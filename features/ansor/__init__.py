"""The feature set `ansor-0.19`: Ansor's 164 features of each store."""
