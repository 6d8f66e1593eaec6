"""Log messages to templates: what varies from line to line is masked."""
