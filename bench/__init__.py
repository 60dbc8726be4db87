"""Benchmarks of nativecall beside its peers, in one run on one machine; see ``bench/README.md``."""
