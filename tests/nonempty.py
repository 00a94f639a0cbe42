"""Collections that a test asserts about in a loop: over an empty collection it would assert nothing."""


def nonempty(items):
    """Return the items as a list, of which there must be some."""
    items = list(items)
    assert items, "there is nothing to check"
    return items
