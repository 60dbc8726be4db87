"""Bridges: each knows the boxes of one library, both ways, and bears the name of what it knows.

That is the top-level module in which the types of the boxes are defined, or the name of a type of C
code that names no module. A file in this folder is all that a new box needs: what it may have, and
how it is found, is in `nativecall._values.boxes`; the `to_*` methods of a native callable use the
other direction. A bridge imports its library only when it makes one of its boxes, or has been
handed one.
"""
