"""The version of the package, importable by modules below the package itself."""

__version__ = "0.1.0"
