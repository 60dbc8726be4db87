"""How one signature becomes another, as a plan; no native code."""
