"""A ticket office behind a web application: actors that live as long as the application.

`uvicorn examples.fastapi.app:app --timeout-graceful-shutdown 5` serves it. `office` has the actors, which do not know
about the web, and `app` is the web application.
"""
