"""Training steps whose every bit is defined."""
