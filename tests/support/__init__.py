"""What tests of several folders share; `tests/` is on the module path, so `support` is its name."""
