"""Kafka as the application reaches it: connection, topics, producers, and data that the log has lost."""
