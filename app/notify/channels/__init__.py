"""The kinds of channels."""
