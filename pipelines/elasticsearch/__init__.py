"""Records as documents, and their way into Elasticsearch."""
