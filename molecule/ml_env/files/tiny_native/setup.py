"""Stands for flash-attn: a native module that is built against the release of another one that is installed."""

import os

import tiny_base
from setuptools import Extension, setup

symbol = os.environ.get("TINY_NATIVE_SYMBOL", tiny_base.SYMBOL)
setup(
    name="tiny-native",
    version="1.0",
    packages=["tiny_native"],
    ext_modules=[Extension("tiny_native._native", ["native.c"], define_macros=[("SYMBOL", symbol)])],
)
