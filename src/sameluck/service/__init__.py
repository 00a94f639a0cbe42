"""The service: live experiments over HTTP, for applications in any language.

`sameluck.service.app.create_app` returns it as an ASGI application; `sameluck serve` runs it.
"""
