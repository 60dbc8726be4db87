"""C types and signatures as values; no native code."""
