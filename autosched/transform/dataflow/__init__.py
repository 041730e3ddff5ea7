"""What memory holds and which of it is still read: regions, known values, dead stores."""
