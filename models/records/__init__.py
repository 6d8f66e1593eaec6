"""The records of kappa's own topics, each said once: field names, types, units and meaning."""
