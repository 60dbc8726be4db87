"""The version of the package, for what stands below the package itself."""

__version__ = "0.1.0"
