"""A ticket office behind a web app: actors that live as long as the app does.

`uvicorn examples.fastapi.app:app --timeout-graceful-shutdown 5` serves it. `office` is the actors, which know nothing of the web; `app` is the
web, which knows nothing of seats.
"""
