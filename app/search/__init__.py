"""Elasticsearch and Kibana as the application reaches them: mappings, aliases, saved objects."""
