"""Bridges: one module for each foreign library, which alone knows that library's boxes, both ways.

`nativecall._values.boxes` finds the bridge for an object; the `to_*` methods of a native callable
use the other direction. A bridge imports its library only when it makes one of its boxes, or has
been handed one.
"""
