"""Support for calls to a store: deadlines, the circuit breaker, the call queue, the clock."""
