"""What the pipeline can do, measured: each module prints a table and gives its figures for the JSON file."""
