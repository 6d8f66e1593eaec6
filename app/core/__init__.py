"""Settings, errors, files and times: what every room of the application uses."""
