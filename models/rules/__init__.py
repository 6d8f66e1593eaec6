"""Rules that people write about alarms and learning, and which series each matches."""
