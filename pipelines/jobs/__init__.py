"""The streaming jobs, one a file, joined by Kafka topics."""
