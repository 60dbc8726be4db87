"""C declarations, of texts and of headers: what they say; no native code."""
