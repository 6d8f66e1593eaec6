"""The lane in real time: early alarms, and what becomes of them."""
