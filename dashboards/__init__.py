"""What people look at. Reads, never writes."""
