"""The servers of one machine, from Python packages and jars alone: Kafka, Elasticsearch, Java."""
