"""Conversions of single values between Python and C memory, and objects of other libraries."""
