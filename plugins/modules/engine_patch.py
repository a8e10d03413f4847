#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply declared edits to the installed source of an engine, or revert them exactly."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_patch
short_description: Apply declared edits to the installed source of an inference engine, or revert them exactly
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Edits Python sources of an engine such as vLLM or SGLang in a virtual environment, as catalogue entries declare it.
  - Edits are placed by the structure of the source, never by line numbers. What is outside an edit keeps its bytes.
  - All patches are planned before anything is written; all files are written, or none. A file is replaced by a new
    inode, so neither a package cache that it is hard-linked to nor the target of a symlink is changed.
  - A source that is neither pristine, nor patched by this module, nor has the patch upstream stops the run untouched.
  - A release that the patch was not verified on stops the run untouched as well.
  - Python does not always notice that a source changed. Give RV(files) to M(blackwell.inference.pyc_invalidate) after
    every run of this module.
options:
  python:
    description:
      - Interpreter of the environment in which the engine is installed. Sources are found by asking it.
      - It looks the engine up without importing it; edits are computed and compiled by it as well.
    type: path
    required: true
  patches:
    description:
      - Catalogue entries, each with C(id), C(engine), C(why), C(releases), C(verified), C(edits), C(clears_when) and
        C(evidence), and optionally C(upstream), C(not_for), C(limits) and C(invalidates). The guide I(Writing a patch),
        C(docs/guides/writing_a_patch.md), describes them.
      - With O(state=reverted), an empty list stands for all patches that are recorded for the environment.
    type: list
    elements: dict
    required: true
  state:
    description:
      - V(applied) puts every patch that the installed release needs into the sources. A patch that was applied before
        from another version of its entry is replaced. Patches that are not listed stay, unless O(exclusive) is set.
      - V(reverted) gives the sources their original bytes back, apart from patches that are not listed.
    type: str
    choices: [applied, reverted]
    default: applied
  exclusive:
    description:
      - With O(state=applied), take out every patch that is recorded for the environment and is not in O(patches).
      - So a patch that is no longer listed goes at the next run.
    type: bool
    default: false
  state_directory:
    description:
      - Where the manifest and the original sources are kept. It is created when something is to be stored.
    type: path
    default: /var/lib/specdecode/patches
attributes:
  check_mode:
    description: Plans everything, predicts what would be changed, and writes nothing.
    support: full
  diff_mode:
    description: Shows a unified diff of each source.
    support: full
  platform:
    description: Needs the file operations of Linux.
    platforms: linux
    support: full
seealso:
  - module: blackwell.inference.pyc_invalidate
"""

EXAMPLES = r"""
- name: Apply the catalogue's patches for the installed vLLM
  blackwell.inference.engine_patch:
    python: /opt/specdecode/ml-env/bin/python
    patches: "{{ entries }}"
  vars:
    entries:
      - "{{ lookup('ansible.builtin.file', 'patches/vllm/glm4-eagle3-interface.yml') | from_yaml }}"
  register: patched

- name: Remove bytecode that no longer matches its source
  blackwell.inference.pyc_invalidate:
    path: "{{ patched.files }}"
  when: patched.files | length > 0

- name: Give the engine its own sources back
  blackwell.inference.engine_patch:
    python: /opt/specdecode/ml-env/bin/python
    patches: []
    state: reverted
"""

RETURN = r"""
patches:
  description: What each patch is on this node, in the order of O(patches).
  returned: always, unless an option is malformed
  type: list
  elements: dict
  contains:
    id:
      description: The patch.
      type: str
      sample: glm4-eagle3-interface
    status:
      description:
        - V(applied), now or before; V(upstream), the release has it; V(not_applicable); V(reverted).
        - When the module fails, V(drifted) or V(unsupported) on the patches that made it fail.
      type: str
      sample: applied
    reason:
      description: Why.
      type: str
      sample: vllm 0.32.0 needs it
    files:
      description: The sources that the patch changes, with their sha256 before and after this run.
      type: list
      elements: dict
      contains:
        path:
          description: Absolute path, as the environment's interpreter would import it.
          type: str
        before:
          description: Digest before; null for a source that was installed anew since it was patched.
          type: str
        after:
          description: Digest after; the same when nothing had to be done.
          type: str
    limits:
      description: What the patch does not achieve on the installed release. Each is a warning as well.
      type: list
      elements: str
    invalidates:
      description: Compiled artefacts that the patch outdates, such as V(triton) or V(flashinfer).
      type: list
      elements: str
files:
  description:
    - All sources of patches that are applied or reverted, changed in this run or not.
    - Whether their bytecode is stale is decided from the node's state, so pass them on after every run.
  returned: success
  type: list
  elements: str
  sample: [/opt/specdecode/ml-env/lib/python3.11/site-packages/vllm/model_executor/models/glm4.py]
diff:
  description: A unified diff of each changed source.
  returned: in diff mode
  type: list
  elements: dict
"""

import contextlib
import datetime
import difflib
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._lock import LockError, lock_of, locked
from ansible_collections.blackwell.inference.plugins.module_utils._patch_entry import Entry, read_entries
from ansible_collections.blackwell.inference.plugins.module_utils._patch_interpreter import (
    Interpreter,
    InterpreterError,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_plan import (
    FAILURES,
    Plan,
    Report,
    Stamp,
    plan_applied,
    plan_reverted,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_sources import ROOMS, Sources
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import (
    Manifest,
    StoreError,
    Write,
    commit,
    load_manifest,
    remove_leftovers,
)

STATES = ("applied", "reverted")


class PatchesFailed(Exception):
    """Some patches can't be what they shall be; nothing was changed."""

    def __init__(self, reports: list[Report]) -> None:
        """reports: all patches of the run."""
        failed = [f"{report.id}: {report.status}: {report.reason}" for report in reports if report.status in FAILURES]
        super().__init__("Nothing was changed. " + "\n".join(failed))
        self.reports = reports


def require_absolute(params: dict[str, Any], *names: str) -> None:
    """A relative path would depend on the directory in which a module happens to run. Raises ValueError."""
    for name in names:
        if not os.path.isabs(params[name]):
            raise ValueError(f"{name} is an absolute path; got {params[name]!r}")


def stamp_now() -> Stamp:
    """When and by whom: the person behind sudo or become, where they are known."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    return Stamp(now.isoformat(), os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.geteuid()}")


def make_plan(params: dict[str, Any], entries: list[Entry], manifest: Manifest) -> Plan:
    """Judge all patches. Raises PatchesFailed when one of them can't be what it shall be."""
    python, reverted = params["python"], params["state"] == "reverted"
    gone = reverted and not os.path.exists(python)  # then the manifest alone says what was done
    with contextlib.nullcontext() if gone else Interpreter(python, ROOMS) as interpreter:
        sources = Sources(python, interpreter, params["state_directory"])
        if reverted:
            plan = plan_reverted(sources, manifest, stamp_now(), entries)
        else:
            plan = plan_applied(sources, manifest, stamp_now(), entries, params["exclusive"])
    if any(report.status in FAILURES for report in plan.reports):
        raise PatchesFailed(plan.reports)
    return plan


def look(params: dict[str, Any], entries: list[Entry]) -> tuple[Manifest, Plan]:
    """The manifest and the plan, without creating anything. Raises PatchesFailed like make_plan."""
    directory = params["state_directory"]
    with locked(directory, create=False) as held:
        try:
            manifest = load_manifest(directory)
            return manifest, make_plan(params, entries, manifest)
        except PatchesFailed:
            # Where nothing was ever patched there is no lock to hold, and another run may just have begun to patch.
            if held or not os.path.exists(lock_of(directory)):
                raise
    return look(params, entries)


def run(params: dict[str, Any], entries: list[Entry], check_mode: bool) -> dict[str, Any]:
    """Plan, write unless in check mode, and say what was or would be done."""
    directory = params["state_directory"]
    manifest, plan = look(params, entries)
    if is_change(plan, manifest) and not check_mode:
        # Only now there is something to keep: another run may have come first, so all is read again under the lock.
        with locked(directory, create=True):
            manifest = load_manifest(directory)
            plan = make_plan(params, entries, manifest)
            if is_change(plan, manifest):
                commit(directory, plan.results.writes, manifest, plan.results.manifest, plan.results.originals)
                remove_leftovers(plan.results.leftovers)
    return {
        "changed": is_change(plan, manifest),
        "patches": [describe(report, plan) for report in plan.reports],
        "files": sorted({path for report in plan.reports if report.status in STATES for path in report.paths}),
        "diff": [{"prepared": unified_diff(write)} for write in plan.results.writes],
    }


def is_change(plan: Plan, manifest: Manifest) -> bool:
    """Whether anything on the node has to change."""
    return bool(plan.results.writes or plan.results.leftovers or plan.results.manifest != manifest)


def describe(report: Report, plan: Plan) -> dict[str, Any]:
    """A report as a return value; a file without digests is one that was installed anew since it was patched."""
    files = []
    for path in report.paths:
        before, after = plan.results.digests.get(path, (None, None))
        files.append({"path": path, "before": before, "after": after})
    fields = report._asdict()
    del fields["paths"]
    return {**fields, "files": files}


def unified_diff(write: Write) -> str:
    """What happens to a source, as a unified diff."""
    before, after = (
        content.decode("utf-8", "replace").splitlines(keepends=True) for content in (write.before, write.after)
    )
    lines = difflib.unified_diff(before, after, write.path + " (before)", write.path + " (after)")
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path", "required": True},
            "patches": {"type": "list", "elements": "dict", "required": True},
            "state": {"type": "str", "choices": list(STATES), "default": "applied"},
            "exclusive": {"type": "bool", "default": False},
            "state_directory": {"type": "path", "default": "/var/lib/specdecode/patches"},
        },
        supports_check_mode=True,
    )
    try:
        require_absolute(module.params, "python", "state_directory")
        result = run(module.params, read_entries(module.params["patches"]), module.check_mode)
    except PatchesFailed as error:
        patches = [{"id": item.id, "status": item.status, "reason": item.reason} for item in error.reports]
        module.fail_json(msg=str(error), patches=patches)
    except (ValueError, OSError, InterpreterError, LockError, StoreError) as error:
        module.fail_json(msg=str(error))
    for patch in result["patches"]:
        for limit in patch["limits"]:
            module.warn(f"{patch['id']}: {limit}")
    if not module._diff:
        del result["diff"]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
