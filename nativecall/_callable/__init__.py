"""The native callable, and what it is asked for."""
