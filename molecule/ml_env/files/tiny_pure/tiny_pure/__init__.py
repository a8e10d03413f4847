"""What the tests ask for where it comes from."""

ORIGIN = "wheel"
