"""Checks of a deployment: what is unsafe, in order of danger. They work when servers are down, which is when they are needed."""
