"""The monitoring pages. They read Elasticsearch and write nothing but labels."""
