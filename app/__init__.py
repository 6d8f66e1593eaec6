"""The application around the jobs: settings, command line, embedded stack, collector, simulator, health."""
