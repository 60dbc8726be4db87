"""The version of the package, for whoever needs it below the package itself."""

__version__ = "0.1.0"
