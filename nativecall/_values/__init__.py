"""Single values between Python and C memory, and whose boxes hold them."""
