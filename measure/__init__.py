"""Building and running candidates in processes of their own, checking them, and recording."""
