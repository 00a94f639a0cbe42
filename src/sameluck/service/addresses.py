"""`Address`: the host and port of a service, and its accepted host names."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import NamedTuple

from sameluck.errors import Invalid

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Address(NamedTuple):
    """A host, a port, and further accepted host names."""

    host: str
    port: int
    names: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        """True if only programs on this machine can call the service."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that a Host header may have; `Invalid` if they cannot be derived from the host."""
        if self.host in ("0.0.0.0", "::", "") and not self.names:
            raise Invalid(
                f"--host {self.host} listens at every address of this machine; add the names by which the service is "
                "called: --allow-host shop.example.org"
            )
        return (*LOOPBACK, self.host, *self.names)

    def bind(self) -> socket.socket:
        """Return a listening socket; raise `Invalid` if the address cannot be used."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # asyncio sets TCP_NODELAY only on a socket whose protocol is explicitly TCP.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            listener.listen(1_024)
        except OSError as error:
            listener.close()
            reason = error.strerror or error
            message = f"cannot listen at {self.host}, port {self.port}: {reason}; choose another port: --port"
            raise Invalid(message) from None
        return listener

    def url(self, listener: socket.socket) -> str:
        """Return the URL of the service, with the bound port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{listener.getsockname()[1]}"
