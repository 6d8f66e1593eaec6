"""Settings, errors, files and times: what every package of the application uses."""
