"""Helpers shared by tests of several folders. `tests/` is on the module path: import `support`."""
