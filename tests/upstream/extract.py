# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run parts of an engine's source without the engine: what is not looked at is a stand-in."""

from __future__ import annotations

import ast
import builtins
import typing
from collections.abc import Iterable
from typing import Any


class Anything:
    """A stand-in that can be called, subscripted, derived from and asked for any attribute."""

    def __init__(self, *arguments: object, **options: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})

    def __call__(self, *arguments: object, **options: object) -> Anything:
        return self


class Names(dict[str, Any]):
    """Globals in which every unknown name is a stand-in; as a base, each is a class of its own."""

    def __init__(self, known: dict[str, Any]) -> None:
        super().__init__({**vars(typing), "nn": Anything(), "__builtins__": builtins, **known})

    def __missing__(self, name: str) -> Any:
        if name.startswith("__"):
            raise KeyError(name)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return type(name, (), {})


def find(source: str, path: str) -> ast.AST:
    """The definition that a dotted path names."""
    node: ast.AST = ast.parse(source)
    for name in path.split("."):
        node = next(item for item in ast.walk(node) if getattr(item, "name", None) == name)
    return node


def run_function(source: str, path: str, names: dict[str, Any] | None = None) -> Any:
    """A function of a source, without its decorators and annotations."""
    node = find(source, path)
    assert isinstance(node, ast.FunctionDef)
    node.decorator_list = []
    return _execute([_plain(node)], names or {})[node.name]


def run_class(source: str, name: str, methods: Iterable[str], names: dict[str, Any] | None = None) -> Any:
    """A class of a source with its bases, and only some of its methods."""
    node = find(source, name)
    assert isinstance(node, ast.ClassDef)
    wanted = set(methods)
    node.decorator_list = []
    node.body = [_plain(item) for item in node.body if isinstance(item, ast.FunctionDef) and item.name in wanted]
    node.body = node.body or [ast.Pass()]
    return _execute([node], names or {})[name]


def run_definitions(source: str, wanted: Iterable[str], names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Some top-level definitions of a source, whole, in their order."""
    chosen = set(wanted)
    nodes = [item for item in ast.parse(source).body if getattr(item, "name", None) in chosen]
    return _execute(nodes, names or {})


def run_expression(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of an expression of a source."""
    return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<expression>", "eval"), dict(names))


def run_statements(nodes: list[ast.stmt], names: dict[str, Any]) -> dict[str, Any]:
    """The names after some statements of a source."""
    return _execute(nodes, names)


def _plain(node: Any) -> Any:
    """A function without annotations, which name types that are not there."""
    node.returns = None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return node


def _execute(nodes: list[Any], names: dict[str, Any]) -> dict[str, Any]:
    module = ast.fix_missing_locations(ast.Module(nodes, []))
    future = ast.parse("from __future__ import annotations").body
    module.body = [*future, *module.body]
    scope = Names(names)
    exec(compile(ast.fix_missing_locations(module), "<extract>", "exec"), scope)
    return scope
