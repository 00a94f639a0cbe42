"""The dashboard: pages of the service on which a person watches live experiments and controls them.

Pages are rendered on the server and can be read without script; `static/dashboard.js` replaces their changed parts
every few seconds.
"""
