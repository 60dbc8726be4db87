"""Shared libraries: functions as native callables, variables, types and memory."""

from .library import Library
from .load import load
from .symbol import Symbol

__all__ = ["Library", "Symbol", "load"]
