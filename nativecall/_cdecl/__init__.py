"""Parse C declarations, from texts and from headers; no native code."""
