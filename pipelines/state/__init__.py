"""The state that jobs keep in checkpoints and savepoints, and how it is packed."""
