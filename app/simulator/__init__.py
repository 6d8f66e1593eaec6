"""A labelled fleet: physical hosts, virtual machines and services, their telemetry and logs, faults and changes."""

from app.simulator.ground_truth import Table, match
from app.simulator.settings import SIMULATED_KINDS, Planned, SimulatorSettings
from app.simulator.simulation import Batch, Block, Simulation, simulate
from app.simulator.writer import document, write

__all__ = [
    "SIMULATED_KINDS",
    "Batch",
    "Block",
    "Planned",
    "Simulation",
    "SimulatorSettings",
    "Table",
    "document",
    "match",
    "simulate",
    "write",
]
