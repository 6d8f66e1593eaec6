"""This machine's own telemetry and log files as events in Kafka."""
