"""C types and signatures as Python values, without native code."""
