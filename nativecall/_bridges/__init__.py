"""Bridges: each converts the foreign objects of one library, both ways.

A bridge is named after the top-level module that defines the types of these objects. If a type
defined in C names no module, the bridge is named after the type. To support a new kind of object,
add a file to this folder: `nativecall._values.foreign` documents what the file may define and how
it is found. The `to_*` methods of a native callable convert in the other direction. A bridge
imports its library only to create one of its objects, or after receiving one.
"""
