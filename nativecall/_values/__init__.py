"""Convert values between Python and C memory, and read objects of other libraries."""
