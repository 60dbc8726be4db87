"""Parse C declarations in strings and headers, in pure Python."""
