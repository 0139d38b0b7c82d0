"""Python reads this first in every process of a studio under test: it knows one more system."""

from sherd.solvers import registry

registry.SYSTEMS["patient"] = "patient_system:Patient"
