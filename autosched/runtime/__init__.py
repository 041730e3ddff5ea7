"""Loading and calling what code generation made."""
