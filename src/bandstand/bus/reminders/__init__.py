"""Reminders: durable timers by wall clock. `cron`, `schedule` and `book` are pure; `reminders` sends the commands that are due; `capability` has the messages."""

__all__ = ()
