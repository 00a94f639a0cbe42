"""Dashboard: pages on which a person watches and controls live experiments.

The server renders whole pages, which work without script. `static/dashboard.js` replaces the changed parts of a page
every few seconds.
"""
