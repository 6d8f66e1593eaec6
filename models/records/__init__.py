"""The records of kappa's own topics, one class each: field names, types, units and meanings."""
