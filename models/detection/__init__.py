"""The detector of a shard: windows of statistics in, scores and episode events out."""
