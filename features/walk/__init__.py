"""What one walk over a lowered candidate sees: scopes, accesses, regions, strides."""
