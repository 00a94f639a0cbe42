"""Live experiments over HTTP, for applications in any language.

`sameluck.service.app.create_app` returns the service as an ASGI application; `sameluck serve` runs it.
"""
