"""Calls, callbacks and thunks where no code can be generated."""
