#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove bytecode that was not compiled from the present source."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: pyc_invalidate
short_description: Remove Python bytecode that was not compiled from the present source
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Python runs C(.pyc) files, not sources. It decides whether a C(.pyc) still belongs to its source by comparing two
    numbers in it, modification time and size, B(for equality). It does not ask which file is newer. An edit that keeps
    both numbers (C(cp -p), C(rsync -t), an image layer with clamped times, a patch of the same length within the same
    second) therefore leaves bytecode behind that keeps running instead of the edited source. So does every edit below
    bytecode with an unchecked hash.
  - This module removes exactly that bytecode, and all other bytecode that was compiled from something else than the
    source which is there now. What was compiled from the present source stays, whatever happened to the times of the
    files. A module without source stays as well, because its bytecode is the module.
  - It decides from the state of the node alone. Run it after every task that may change sources, always, without a
    handler. When there is nothing to do it changes nothing.
  - "It looks at every place: C(__pycache__) with the files of all interpreters and optimization levels,
    C(PYTHONPYCACHEPREFIX) trees, and C(.pyc) files beside their source."
  - Removing bytecode is always safe. Python compiles the source again when it imports it next.
options:
  path:
    description:
      - Absolute paths of Python sources, whose bytecode is judged, or of folders, in which all bytecode is judged.
        Name neither the bytecode itself nor a C(__pycache__), but what they belong to.
      - Links to folders below a given folder are not followed. Those that lead out of it are named in RV(left).
      - A path that does not exist is an error.
    type: list
    elements: path
    required: true
    aliases: [paths]
  python:
    description:
      - Interpreters that may compile sources in order to prove what was compiled from them. For each C(.pyc) one with
        its magic number is needed.
      - By default these are the interpreter of the environment in which a path lies (the nearest C(bin/python) upwards
        from it), those of environments found below a path, and the one that runs this module.
      - An interpreter in a folder that belongs to another account than C(root) runs as that account.
    type: list
    elements: path
    default: []
  pycache_prefix:
    description:
      - The C(PYTHONPYCACHEPREFIX) tree in which bytecode of the sources lies as well. It need not exist yet.
      - If this is not set, all trees are searched that a running process or a systemd unit on the node names
        (C(PYTHONPYCACHEPREFIX) or C(-X pycache_prefix=)). A tree that a process names counts only if it belongs to
        C(root), to the account of the task, or to that of the process. RV(prefixes) says which were searched.
      - The empty string searches none.
    type: path
  prove:
    description:
      - Whether bytecode that neither its header nor its times can clear is compared with freshly compiled code.
      - V(false) removes it instead, which is faster and safe. It makes C(changed) true although the source may be
        unchanged, because nobody looked.
    type: bool
    default: true
  list_all:
    description:
      - Whether RV(removed) and RV(left) name everything that was found in folders, however much it is. Otherwise
        they name the first five and RV(truncated) says so, unless the task runs with C(-v).
      - What belongs to sources that O(path) names is always listed.
    type: bool
    default: false
attributes:
  check_mode:
    description: Predicts what would be removed, and writes nothing. It does not notice immutable files.
    support: full
  diff_mode:
    description: Lists every removed file with the reason.
    support: full
  platform:
    description: Needs C(/proc) and the file operations of Linux.
    platforms: linux
    support: full
notes:
  - "How a C(.pyc) is judged, in this order. Its header can't be used by any interpreter: it is ignored anyway and
    stays. It has a hash: the source is hashed as its own interpreter would do it. It has another size than the
    source: the source was changed. Its times prove that it was compiled after the last change of the source (the
    C(ctime), which no tool can put back, lies before the bytecode by more than any compilation was seen to last): it
    is fresh; images, FAT and FUSE have no such time. Else the source is compiled by an interpreter with the same magic
    number, and the code is compared."
  - Bytecode that belongs to its source and ends with a whole block (512 bytes) is loaded once by such an interpreter,
    because a full disk may have cut it off. Without an interpreter it is kept.
  - What is found fresh is sealed, so that the next run neither proves nor opens it. The seal is the modification time
    of the C(.pyc), which no interpreter looks at. It becomes that of about ten seconds before the run, and its
    nanoseconds a digest of inode, size and times of the source. Any later change of source or bytecode ends the seal,
    also a C(chmod). Sealing is not reported as a change, and check mode seals nothing. A backup that goes by
    modification times will take sealed files for new ones, once.
  - Not sealed, and so looked at again in every run, at the cost of reading a header, is the newest bytecode of a folder
    (its times prove that nothing was moved there, unless it had to be proved itself), and what needs no proof on
    overlays and network file systems.
  - Proved again in the next run is bytecode of a source that was changed less than a second before this one. Proved in
    every run may be what is hard-linked under several names, what lies where nothing can be written or where times have
    no fractions of a second, and the bytecode of sources without a C(ctime), which can be changed without a trace.
  - Sources over 8 MiB are not compiled or hashed, and bytecode over 64 MiB is not read. Such bytecode is removed as
    C(unproved) unless the times prove it.
  - Bytecode of import hooks (pytest, beartype, typeguard, jaxtyping) can't be compiled again. It is removed as
    C(unproved) unless its times or its hash prove it (pytest 9 writes a hash).
  - "What it can't see: bytecode of another version copied here without its times (C(cp -r)) whose recorded time and
    size happen to be those of the source; a C(touch) on stale bytecode, or a whole C(__pycache__) that was moved to
    other sources, if other bytecode was added there later; an edit while a process was stopped or starved for seconds
    between reading the source and writing its bytecode; an edit through a memory map that was opened before the
    compilation; a clock that was set back; what lies in zip archives. An extension module C(x.cpython-*.so) is
    preferred to C(x.py), and Python 3.11 and later never read the sources of modules that are frozen into the
    interpreter."
  - An import that was under way during an edit may write stale bytecode after this module has run. Purge before the
    restart of a service, and once more after it.
  - Bytecode on disk says nothing about a running process. Decide restarts from what runs, not from C(changed).
seealso:
  - name: Why your patch did not take effect
    description: The rules of Python, what happens after which kind of edit, and what to do.
    link: https://github.com/blackwell-inference/blackwell.inference/blob/main/docs/guides/why_your_patch_did_not_take_effect.md
  - name: PEP 552
    description: The format of bytecode files.
    link: https://peps.python.org/pep-0552/
"""

EXAMPLES = r"""
- name: Write a patched module
  ansible.builtin.copy:
    src: eagle_worker.py
    dest: "{{ engine_directory }}/speculative/eagle_worker.py"
    mode: preserve

- name: Remove bytecode that no longer matches its source
  blackwell.inference.pyc_invalidate:
    path: "{{ engine_directory }}/speculative/eagle_worker.py"

# From the command line: ansible all -m blackwell.inference.pyc_invalidate -a path=/opt/specdecode/ml-env
- name: Remove stale bytecode from a whole environment
  blackwell.inference.pyc_invalidate:
    path: /opt/specdecode/ml-env

- name: Look at a server that keeps its bytecode in a place of its own
  blackwell.inference.pyc_invalidate:
    path: /opt/specdecode/ml-env
    pycache_prefix: /var/cache/specdecode/bytecode
  check_mode: true
  diff: true

- name: Remove everything doubtful without compiling anything
  blackwell.inference.pyc_invalidate:
    path: /srv/application
    prove: false

- name: Use every name that was removed
  blackwell.inference.pyc_invalidate:
    path: /srv/application
    python:
      - /usr/bin/python3
      - /usr/local/bin/python3.12
    list_all: true
  register: purge
"""

RETURN = r"""
changed:
  description: Whether a file was removed, or would be in check mode. Nothing else counts.
  returned: always
  type: bool
removed:
  description: What was removed, or would be in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The bytecode file. Bytes that are not UTF-8 are shown as C(\\xNN).
      type: str
      returned: always
    source:
      description: Its source.
      type: str
      returned: always
    reason:
      description:
        - "C(size_differs): the source has another size than when it was compiled."
        - "C(hash_differs): the source has another hash than when it was compiled."
        - "C(code_differs): the source compiles to other code, although size (and perhaps time) are the recorded ones."
        - "C(does_not_compile): the source is no longer valid Python. The next import will say so."
        - "C(broken): the header is valid and what follows is no code. Every import fails until it is removed."
        - "C(unproved): it may be stale and that could not be decided; a warning says why."
      type: str
      returned: always
  sample:
    - path: /opt/ml-env/lib/python3.12/site-packages/sglang/__pycache__/utils.cpython-312.pyc
      source: /opt/ml-env/lib/python3.12/site-packages/sglang/utils.py
      reason: code_differs
left:
  description: What could not be judged, or is outside of what this module removes, and was not touched.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The file or folder.
      type: str
      returned: always
    reason:
      description:
        - "C(sourceless): there is no source, so this bytecode is the module. If the source was deleted on purpose,
          Python still imports it; delete it yourself."
        - "C(orphan): its name is one for C(__pycache__) and its source is not where it would have to be, so Python
          never imports it. In a C(PYTHONPYCACHEPREFIX) tree that was not searched as one, all names are like that."
        - "C(unusable_header): every interpreter since Python 3.7 ignores it and writes a new one."
        - "C(link): a link, which is not followed. A warning says so."
        - "C(special): a FIFO, socket, device or folder with the name of a bytecode file."
        - "C(too_deep): a folder more than 400 levels below the given one. A warning says so."
        - "C(busy): it was replaced again and again while it was judged. A warning says so."
      type: str
      returned: always
removed_count:
  description: How many files were removed, or would be in check mode.
  returned: always
  type: int
left_count:
  description: How many files and folders RV(left) would name if it were complete.
  returned: always
  type: int
truncated:
  description: Whether RV(removed) or RV(left) name less than there is, see O(list_all).
  returned: always
  type: bool
reasons:
  description: How often each reason occurred, of RV(removed) and RV(left) together.
  returned: always
  type: dict
  sample: {"code_differs": 3, "sourceless": 1}
examined:
  description: How many bytecode files were looked at.
  returned: always
  type: int
kept:
  description: How many were compiled from the present source and stay.
  returned: always
  type: int
proved:
  description:
    - How many had to be compared with freshly compiled code, whatever came of it. What was proved is sealed and then
      needs no proof again; for exceptions see the notes.
  returned: always
  type: int
prefixes:
  description: The C(PYTHONPYCACHEPREFIX) trees that were searched.
  returned: always
  type: list
  elements: str
msg:
  description: A summary in a sentence.
  returned: always
  type: str
  sample: "29659 pycs examined: 29656 kept, 3 removed (3 code_differs); 12 compared with fresh code"
"""

import errno
import os
from collections import Counter
from typing import Any, Iterable, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import (
    Left,
    LostWorkError,
    Outcome,
    PathError,
    Removed,
    Request,
    invalidate,
)

A_HANDFUL = 5
ARGUMENTS: dict[str, Any] = {
    "path": {"type": "list", "elements": "path", "required": True, "aliases": ["paths"]},
    "python": {"type": "list", "elements": "path", "default": []},
    "pycache_prefix": {"type": "path"},
    "prove": {"type": "bool", "default": True},
    "list_all": {"type": "bool", "default": False},
}
NEXT_COMMAND = {
    errno.EACCES: "use become, or look with: namei -l",
    errno.EPERM: "use become; if it is immutable, that shows with: lsattr -d",
    errno.EROFS: "look at the mount with: findmnt -T",
}


def printable(path: str) -> str:
    """A path as text that any log can hold."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def listed(items: Sequence[Removed | Left]) -> list[dict[str, str]]:
    """Items of a result as dictionaries."""
    return [{key: printable(value) for key, value in item._asdict().items()} for item in items]


def result_of(outcome: Outcome, everything: bool) -> dict[str, Any]:
    """The result of the task; with `everything` its lists are complete."""
    most = max(len(outcome.removed), len(outcome.left))
    shown = most if everything else A_HANDFUL
    return {
        "changed": bool(outcome.removed),
        "removed": listed(outcome.removed[:shown]),
        "left": listed(outcome.left[:shown]),
        "removed_count": len(outcome.removed),
        "left_count": len(outcome.left),
        "truncated": most > shown,
        "reasons": dict(Counter(item.reason for items in (outcome.removed, outcome.left) for item in items)),
        "examined": outcome.examined,
        "kept": outcome.kept,
        "proved": outcome.proved,
        "prefixes": [printable(prefix) for prefix in outcome.prefixes],
    }


def summary_of(outcome: Outcome, check_mode: bool) -> str:
    """The result in a sentence."""
    if not outcome.examined:
        return "no bytecode was found"
    parts = [f"{outcome.kept} kept"]
    verb = "would be removed" if check_mode else "removed"
    for verb_of_group, group in ((verb, outcome.removed), ("left", outcome.left)):
        if group:
            parts.append(f"{len(group)} {verb_of_group} ({counted(item.reason for item in group)})")
    compared = f"; {outcome.proved} compared with fresh code" if outcome.proved else ""
    return f"{outcome.examined} pyc{'s' if outcome.examined > 1 else ''} examined: {', '.join(parts)}{compared}"


def counted(reasons: Iterable[str]) -> str:
    """Reasons with their numbers, the most frequent first."""
    return ", ".join(f"{number} {reason}" for reason, number in Counter(reasons).most_common())


def warnings_of(outcome: Outcome) -> list[str]:
    """What the reader must know to trust the result."""
    blind = [left for left in outcome.left if left.reason in ("link", "too_deep", "busy")]
    if not blind:
        return outcome.warnings
    return [
        *outcome.warnings,
        f"not everything could be judged ({counted(left.reason for left in blind)}), for example "
        f"{printable(blind[0].path)}; name the target of a link in path to have it judged",
    ]


def failure_of(outcome: Outcome) -> str:
    """What could not be done, and the next command to type."""
    lines = []
    for path, error in outcome.errors[:A_HANDFUL]:
        command = NEXT_COMMAND.get(error.errno or 0, "look with: ls -ld")
        lines.append(f"{printable(path)}: {error.strerror} ({command} '{printable(path)}')")
    return f"{len(outcome.errors)} files or folders could not be judged or removed: {'; '.join(lines)}"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    options = module.params
    request = Request(
        options["path"], options["python"], options["pycache_prefix"], options["prove"], module.check_mode
    )
    try:
        outcome = invalidate(request)
    except (PathError, LostWorkError) as error:
        module.fail_json(msg=printable(str(error)))
    everything = options["list_all"] or module._verbosity > 0 or not any(map(os.path.isdir, options["path"]))
    result = result_of(outcome, everything)
    if module._diff:
        lines = [f"{printable(removed.path)}  ({removed.reason})\n" for removed in outcome.removed]
        result["diff"] = {"before": "".join(lines), "after": ""}
    for warning in warnings_of(outcome):
        module.warn(printable(warning))
    if outcome.errors:
        module.fail_json(msg=failure_of(outcome), **result)
    module.exit_json(msg=summary_of(outcome, module.check_mode), **result)


if __name__ == "__main__":
    main()
