"""The drill: conversations with a gateway that is killed again and again, and a count of the faults."""

from perdure.testing.drill.points import Point, random_points, sweep_points
from perdure.testing.drill.report import Report, Waits
from perdure.testing.drill.runner import Drill

__all__ = ["Drill", "Point", "Report", "Waits", "random_points", "sweep_points"]
