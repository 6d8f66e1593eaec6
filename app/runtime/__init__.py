"""Long-running processes: the Spark session, the jobs, their health, and what they answer."""
