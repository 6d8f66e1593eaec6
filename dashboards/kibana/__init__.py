"""What Kibana shows, made by code from the mapping of the documents, so that the two cannot drift apart.

fields.py         the fields that a mapping has, and what each can be used for
panels.py         a panel or a saved search as a value: what is asked, and the search that asks it of Elasticsearch
contents.py       which panels and searches there are, and where they stand on the dashboard
lens.py           a panel as the state of a Lens visualization
saved_objects.py  everything as Kibana's saved objects, one JSON object a line
"""
