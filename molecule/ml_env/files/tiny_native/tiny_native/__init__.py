"""Asks the library that it was built against."""

import tiny_base  # noqa: F401  its functions have to be there first

from tiny_native._native import ask  # noqa: F401
