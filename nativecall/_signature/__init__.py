"""C types, signatures and declarations: what a function is; no native code."""
