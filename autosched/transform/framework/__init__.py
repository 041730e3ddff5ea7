"""What a pass is, the context it runs under, and what watches it."""
