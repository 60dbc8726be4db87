"""Bridges: each knows the foreign objects of one library, both ways, and bears the name of it.

That is the top-level module in which the types of these are defined, or the name of a type of C
code that names no module. A file in this folder is all that a new kind needs: what it may have, and
how it is found, is in `nativecall._values.foreign`; the `to_*` methods of a native callable use the
other direction. A bridge imports its library only when it makes one of its objects, or has been
handed one.
"""
