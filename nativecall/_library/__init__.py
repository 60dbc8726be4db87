"""Shared libraries: their functions as native callables, their variables, types and memory."""

from .library import Library
from .load import load
from .symbol import Symbol

__all__ = ["Library", "Symbol", "load"]
