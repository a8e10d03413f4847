"""Loads its library so that others find its functions, as torch does."""

import ctypes
import importlib.machinery
import importlib.metadata
import os

SYMBOL = f"tiny_base_{importlib.metadata.version('tiny-base').split('.')[0]}"
ctypes.CDLL(
    os.path.join(os.path.dirname(__file__), "_base" + importlib.machinery.EXTENSION_SUFFIXES[0]), ctypes.RTLD_GLOBAL
)
