"""Native callables: the class, and the modules that implement its methods."""
