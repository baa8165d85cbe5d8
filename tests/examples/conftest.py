"""Async tests run on the event loop of the lane, and start their systems themselves."""

from __future__ import annotations

from tests.async_tests import bandstand_loop_factory, bandstand_system, pytest_itemcollected

__all__ = ("bandstand_loop_factory", "bandstand_system", "pytest_itemcollected")
