# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared edits of Python source: selected by structure, never by line number.

An edit is a mapping with a ``kind``. It finds its place in the tree of the source, and either changes the text there,
or finds that its effect is there already, or fails. What is outside the edit keeps its bytes.

Engines use newer syntax than a node's own Python may know, so this runs in the interpreter of the engine's environment
(see `_patch_interpreter`). Texts of a catalogue entry are parsed by that same interpreter, and trees are compared by
their shape, so layout and quotes never matter.
"""

from __future__ import annotations

import ast
import base64
import functools
import re
import textwrap
import tokenize
import warnings
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence, Union

from ansible_collections.blackwell.inference.plugins.module_utils._source_diff import apply_diff
from ansible_collections.blackwell.inference.plugins.module_utils._source_text import (
    EditError,
    InvalidEdit,
    SourceText,
    Splice,
    decode,
    encode,
    ending,
    reindent,
    splice,
)

Edit = Mapping[str, Any]
Definition = Union[ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef]
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_CONTEXT = re.compile(r"(?:, )?ctx=(?:Load|Store|Del)\(\)")
_BLOCKS = ("body", "orelse", "finalbody")
_EXCERPT_LINES = 6


class Outcome(NamedTuple):
    """What a sequence of edits does to a source."""

    source: bytes
    present: list[bool]  # for each edit: its effect was there already, so it changed nothing


def apply_edits(source: bytes, edits: Sequence[Edit]) -> Outcome:
    """Apply edits in their order; the result compiles, and each edit finds its own effect in it.

    Raises EditError when an edit does not fit, SyntaxError when the source or the result does not compile.
    """
    form = decode(source)
    text = form.text
    present = []
    for edit in edits:
        edited = _apply(text, edit)
        present.append(edited is None)
        if edited is not None:
            text = edited
            _confirm(text, edit)
    try:
        result = encode(text, form)
    except UnicodeEncodeError as error:
        raise EditError(f"text that the file's encoding {form.encoding} has", str(error)) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        compile(result, "<patched source>", "exec", dont_inherit=True)
    return Outcome(result, present)


def answer_edits(source: str, edits: Sequence[Edit]) -> dict[str, Any]:
    """`apply_edits` for a caller in another process: bytes travel as base64, a misfit as its two phrases."""
    try:
        outcome = apply_edits(base64.b64decode(source), edits)
    except EditError as error:
        return {"expected": error.expected, "found": error.found}
    except SyntaxError as error:
        return {"expected": "source that compiles", "found": str(error)}
    return {"source": base64.b64encode(outcome.source).decode("ascii"), "present": outcome.present}


def answer_condition(source: str, condition: Mapping[str, Any]) -> bool:
    """Whether an expression is `present` or `absent` in a scope of the source (base64); False without such a scope."""
    try:
        text = _parsed(decode(base64.b64decode(source)).text)
        scope = _scope(text, condition.get("scope", ""))
    except (EditError, SyntaxError):
        return False
    wanted = _shape(_expression(condition.get("present") or condition["absent"]))
    found = any(isinstance(node, ast.expr) and _shape(node) == wanted for node in ast.walk(scope))
    return found is ("present" in condition)


def _apply(text: str, edit: Edit) -> str | None:
    return _KINDS[edit["kind"]](_parsed(text), edit)


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> SourceText:
    """A source, parsed once for all edits and checks of the same text; no edit changes the tree."""
    return SourceText(text)


def _confirm(text: str, edit: Edit) -> None:
    """Ask the edit itself whether its effect is there: a splice that parses otherwise than meant is caught here."""
    try:
        again = _apply(text, edit)
    except EditError as error:
        raise EditError(f"the effect of {edit['kind']} after applying it", error.found) from error
    if again is not None:
        raise EditError(f"the effect of {edit['kind']} after applying it", "a source that it would change once more")


# --- finding a place --------------------------------------------------------------------------------------------------


def _shape(node: ast.AST) -> str:
    """A tree without positions, and without the difference between reading and assigning a name."""
    return _CONTEXT.sub("", ast.dump(node))


def _expression(text: str) -> ast.expr:
    """Parse an expression of an edit. Raises InvalidEdit."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise InvalidEdit(f"`{text}` is not a Python expression: {error}") from error


def _block(text: str) -> list[ast.stmt]:
    """Parse statements of an edit, at any indentation. Raises InvalidEdit."""
    try:
        return ast.parse(textwrap.dedent(text)).body
    except SyntaxError as error:
        raise InvalidEdit(f"this is not Python: {error}:\n{text}") from error


def _scope(source: SourceText, path: str) -> ast.Module | Definition:
    """The class or function that a dotted path names, from the module down; the module itself for an empty path.

    Definitions inside if, try and with blocks count as their enclosing scope's.
    """
    node: ast.Module | Definition = source.tree
    for name in filter(None, path.split(".")):
        inside = list(_own_definitions(node))
        here = [item for item in inside if item.name == name]
        if len(here) != 1:
            names = ", ".join(item.name for item in inside[:40]) or "nothing"
            raise EditError(f"exactly one definition of {path}", f"{len(here)} of {name} among: {names}")
        node = here[0]
    return node


def _own_definitions(scope: ast.AST) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, _DEFINITIONS):
            yield child
        elif isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from _own_definitions(child)


def _class(source: SourceText, path: str) -> ast.ClassDef:
    node = _scope(source, path)
    if not isinstance(node, ast.ClassDef):
        raise EditError(f"a class {path}", "a function of that name")
    return node


def _excerpt(source: SourceText, nodes: Sequence[ast.AST]) -> str:
    lines = [line for node in nodes for line in source.segment(node).splitlines()]
    more = [] if len(lines) <= _EXCERPT_LINES else ["..."]
    return "\n".join(["", *lines[:_EXCERPT_LINES], *more]) if lines else "nothing of the kind"


# --- lists of names and values ----------------------------------------------------------------------------------------


def _extend_import(source: SourceText, edit: Edit) -> str | None:
    """Add `names` to the module-level ``from <module> import ...``."""
    imports = [node for node in source.tree.body if isinstance(node, ast.ImportFrom)]
    found = [node for node in imports if "." * node.level + (node.module or "") == edit["module"]]
    if not found or any(alias.name == "*" for node in found for alias in node.names):
        raise EditError(f"`from {edit['module']} import NAMES`", _excerpt(source, found or imports))
    known = {_alias(alias.name, alias.asname) for node in found for alias in node.names}
    missing = [name for name in edit["names"] if " ".join(name.split()) not in known]
    if not missing:
        return None
    last_name = [token for token in source.tokens(found[0]) if token.type == tokenize.NAME][-1]
    return splice(source.text, [_append(source, found[0], last_name.end, missing)])


def _alias(name: str, renamed: str | None) -> str:
    return f"{name} as {renamed}" if renamed else name


def _extend_bases(source: SourceText, edit: Edit) -> str | None:
    """Add `names` to the bases of a class, after the last one and before keywords such as metaclass."""
    node = _class(source, edit["class"])
    known = {_shape(base) for base in node.bases}
    missing = [name for name in edit["names"] if _shape(_expression(name)) not in known]
    if not missing:
        return None
    if node.bases:
        return splice(source.text, [_append(source, node, source.span(node.bases[-1])[1], missing)])
    opening = next(token for token in source.tokens(node) if token.string in ("(", ":"))
    added = ", ".join(missing)
    if opening.string == ":":
        return splice(source.text, [_insertion(opening.start, f"({added})")])
    return splice(source.text, [_insertion(opening.end, added + (", " if node.keywords else ""))])


def _extend_list(source: SourceText, edit: Edit) -> str | None:
    """Add `items` (plain values) to the list, tuple or set that is assigned to `target` in `scope`."""
    values = list(_assigned(_scope(source, edit.get("scope", "")), edit["target"]))
    if len(values) != 1 or not isinstance(values[0], (ast.List, ast.Tuple, ast.Set)):
        raise EditError(f"exactly one list, tuple or set assigned to {edit['target']}", _excerpt(source, values))
    literal = values[0]
    known = {_shape(item) for item in literal.elts}
    missing = [text for text in map(_literal, edit["items"]) if _shape(_expression(text)) not in known]
    if not missing:
        return None
    if literal.elts:
        return splice(source.text, [_append(source, literal, source.span(literal.elts[-1])[1], missing)])
    comma = "," if isinstance(literal, ast.Tuple) and len(missing) == 1 else ""
    return splice(source.text, [_insertion(source.span(literal)[0] + 1, ", ".join(missing) + comma)])


def _assigned(scope: ast.AST, target: str) -> Iterator[ast.expr]:
    wanted = _shape(_expression(target))
    for node in ast.walk(scope):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and value and wanted in map(_shape, filter(None, targets)):
            yield value


def _literal(value: object) -> str:
    """A plain value as source; strings in double quotes, as the formatters of the engines write them."""
    text = repr(value)
    return f'"{value}"' if isinstance(value, str) and text == f"'{value}'" and '"' not in text else text


def _append(source: SourceText, node: ast.AST, position: int, items: list[str]) -> Splice:
    """Add items behind the last one: on lines of their own where the last one's line holds no head of the node."""
    line = source.line_at(position)
    starts_line = source.line_start(line) > source.span(node)[0]
    continued = line > 1 and source.lines[line - 2].rstrip().endswith("\\")
    gap = source.newline(line) + source.indent(line) if starts_line and not continued else " "
    return _insertion(position, "".join(f",{gap}{item}" for item in items))


def _insertion(position: int, text: str) -> Splice:
    return Splice(position, position, text)


# --- methods, statements, expressions ---------------------------------------------------------------------------------


def _insert_methods(source: SourceText, edit: Edit) -> str | None:
    """Insert the definitions of `text` into a class, before its method `before`."""
    owner = _class(source, edit["class"])
    wanted = [getattr(node, "name", None) for node in _block(edit["text"])]
    if None in wanted or not wanted:
        raise InvalidEdit(f"this defines no method, or more than methods:\n{edit['text']}")
    there = {node.name for node in _own_definitions(owner)}
    defined = [name for name in wanted if name in there]
    if defined and len(defined) < len(wanted):
        raise EditError(f"none or all of {_names(wanted)} in {edit['class']}", f"only {_names(defined)}")
    if defined:
        return None
    anchors = [node for node in owner.body if isinstance(node, _DEFINITIONS) and node.name == edit["before"]]
    if len(anchors) != 1:
        methods = _names([node.name for node in owner.body if isinstance(node, _DEFINITIONS)]) or "no method"
        what = f"exactly one method {edit['before']} in {edit['class']}"
        raise EditError(what, f"{len(anchors)} of them among: {methods}")
    return _insert_before(source, anchors[0], edit["text"], blank_line=True)


def _names(names: Sequence[str | None]) -> str:
    return ", ".join(filter(None, names))


def _insert_statements(source: SourceText, edit: Edit) -> str | None:
    """Insert the statements of `text` before or after the one statement of `scope` that looks like the anchor."""
    side = "before" if "before" in edit else "after"
    places = list(_statements(_scope(source, edit.get("scope", ""))))
    found = [place for place in places if _is_anchor(place.node, edit[side])]
    if len(found) != 1:
        what = f"exactly one statement `{edit[side].strip()}` in {edit.get('scope') or 'the module'}"
        raise EditError(
            what, f"{len(found)} of them; it begins with {_excerpt(source, [place.node for place in places])}"
        )
    new = [_shape(node) for node in _block(edit["text"])]
    siblings, index = found[0].siblings, found[0].position
    neighbours = siblings[max(0, index - len(new)) : index] if side == "before" else siblings[index + 1 :][: len(new)]
    if [_shape(node) for node in neighbours] == new:
        return None
    insert = _insert_before if side == "before" else _insert_after
    return insert(source, found[0].node, edit["text"])


class _Place(NamedTuple):
    node: ast.stmt
    siblings: list[ast.stmt]
    position: int


def _statements(scope: ast.AST) -> Iterator[_Place]:
    for node in ast.walk(scope):
        for block in _BLOCKS:
            siblings = getattr(node, block, None)
            if isinstance(siblings, list):
                yield from (_Place(child, siblings, position) for position, child in enumerate(siblings))


def _is_anchor(node: ast.stmt, text: str) -> bool:
    """Whether a statement looks like the text; a text that ends with a colon describes the head of a compound one."""
    if text.rstrip().endswith(":"):
        return _head(node) == _head(_block(text.strip() + " pass")[0])
    return _shape(node) == _shape(_block(text)[0])


def _head(node: ast.stmt) -> dict[str, Any]:
    fields = {name: value for name, value in ast.iter_fields(node) if name not in (*_BLOCKS, "handlers")}
    return {"type": type(node).__name__, **{name: _field_shape(value) for name, value in fields.items()}}


def _field_shape(value: object) -> object:
    if isinstance(value, list):
        return [_field_shape(item) for item in value]
    return _shape(value) if isinstance(value, ast.AST) else value


def _insert_before(source: SourceText, node: ast.stmt, text: str, blank_line: bool = False) -> str:
    """Insert above a statement, its decorators, and the comment lines that belong to it."""
    _require_own_lines(source, node)
    line = source.first_line(node)
    indent = source.indent(line)
    while line > 1 and source.lines[line - 2].startswith(indent + "#"):
        line -= 1
    newline = source.newline(line)
    block = reindent(text, indent, source.indent_unit(), newline) + (newline if blank_line else "")
    return splice(source.text, [_insertion(source.line_start(line), block)])


def _insert_after(source: SourceText, node: ast.stmt, text: str) -> str:
    _require_own_lines(source, node)
    last = node.end_lineno or node.lineno
    newline = source.newline(last)
    block = reindent(text, source.indent(node.lineno), source.indent_unit(), newline)
    if not ending(source.lines[last - 1]):
        block = newline + block[: -len(newline)]
    return splice(source.text, [_insertion(source.line_start(last + 1), block)])


def _require_own_lines(source: SourceText, node: ast.stmt) -> None:
    """A place between statements exists only where the statement shares its lines with no other."""
    dummy, end = source.span(node)
    rest = source.text[end : source.line_start((node.end_lineno or node.lineno) + 1)].strip()
    if not source.opens_line(node) or (rest and not rest.startswith("#")) or source.segment(node).startswith("elif"):
        line = source.lines[node.lineno - 1].strip()
        raise EditError("a statement on lines of its own as the place of insertion", f"`{line}`")


def _replace_expression(source: SourceText, edit: Edit) -> str | None:
    """Replace `expression` by `replacement`, exactly `count` times in `scope`."""
    scope = _scope(source, edit.get("scope", ""))
    old, new = (_shape(_expression(edit[key])) for key in ("expression", "replacement"))
    replaced = [node for node in _expressions(scope) if _shape(node) == new]
    inside_replaced = {id(inner) for node in replaced for inner in ast.walk(node)}
    originals = [node for node in _expressions(scope) if _shape(node) == old and id(node) not in inside_replaced]
    if not originals and len(replaced) == edit["count"]:
        return None
    if replaced or len(originals) != edit["count"]:
        expected = f"`{edit['expression']}` {edit['count']} times in {edit.get('scope') or 'the module'}"
        raise EditError(expected, f"it {len(originals)} times, and its replacement {len(replaced)} times")
    text = edit["replacement"].strip().replace("\n", source.newline(originals[0].lineno))
    return splice(source.text, [Splice(*source.span(node), text) for node in originals])


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions below a node that are read; not those in f-strings: their positions are wrong before Python 3.12."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            continue
        if isinstance(child, ast.expr) and not isinstance(getattr(child, "ctx", None), (ast.Store, ast.Del)):
            yield child
        yield from _expressions(child)


def _diff(source: SourceText, edit: Edit) -> str | None:
    """Apply the hunks of a unified diff where their context is, whatever their line numbers say."""
    return apply_diff(source.lines, edit["text"])


_KINDS: dict[str, Callable[[SourceText, Edit], str | None]] = {
    "diff": _diff,
    "extend_bases": _extend_bases,
    "extend_import": _extend_import,
    "extend_list": _extend_list,
    "insert_methods": _insert_methods,
    "insert_statements": _insert_statements,
    "replace_expression": _replace_expression,
}
