"""The native callable, and the modules behind its methods."""
