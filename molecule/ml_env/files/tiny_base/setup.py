"""Stands for torch: a library that other native modules are linked with, under names that change with its release."""

import os

from setuptools import Extension, setup

release = os.environ["TINY_BASE_RELEASE"]
symbol = f"tiny_base_{release.split('.')[0]}"
setup(
    name="tiny-base",
    version=release,
    packages=["tiny_base"],
    ext_modules=[Extension("tiny_base._base", ["base.c"], define_macros=[("SYMBOL", symbol), ("RELEASE", release[0])])],
)
