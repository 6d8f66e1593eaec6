"""Notifies people of incidents: by an Alertmanager, a webhook, chat, e-mail."""
