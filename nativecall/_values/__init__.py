"""Single values between Python and C memory, and foreign objects that hold them."""
