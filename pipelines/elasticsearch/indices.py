"""Kinds of indices: those of a version's documents, and the one of labels, which belong to no version."""

INDEX_KINDS = ("scores", "novelties", "incidents", "pipeline")
LABELS = "labels"
