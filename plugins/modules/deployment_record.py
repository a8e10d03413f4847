#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's shell around _deployment_record: what was deployed, and going back to it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_record
short_description: Record what is deployed on a node, and give it back exactly
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Writes down what a deployment consists of, with the content of its files, and gives the files of an earlier
    deployment back, byte by byte, with mode and owner.
  - A deployment is settings, the sources that M(blackwell.inference.engine_patch) has patched together with the
    manifest and the originals, and whatever else is named. Packages of the engine and weights of models are not kept.
  - Records are only ever added. What was recorded last is not recorded again while it is the same.
  - This module only writes files. Bytecode, compiled artefacts and the running server have to follow; the role
    C(specdecode_gate) does that with C(tasks_from=roll_back).
options:
  directory:
    description: Where records and contents are kept. Only root may read it, since settings may hold an API key.
    type: path
    default: /var/lib/specdecode/deployments
  instance:
    description: Which server the deployment is of.
    type: str
    default: main
  state:
    description:
      - V(recorded) writes down what is on the node now.
      - V(restored) gives back the files of O(deployment). It records nothing; do so with O(restores) once the server
        serves again.
    type: str
    choices: [recorded, restored]
    default: recorded
  files:
    description:
      - With O(state=recorded), the files that belong to the deployment. Those that are missing are recorded as that.
    type: list
    elements: path
    default: []
  trees:
    description:
      - With O(state=recorded), directories of which all files and links belong to the deployment.
      - A directory, or one above a file, that has become a link since is not followed when files are given back.
      - Files of more than 16 MiB are refused; links to them are kept as links.
    type: list
    elements: path
    default: []
  patches_directory:
    description:
      - State directory of M(blackwell.inference.engine_patch). Its manifest names the patched sources. Empty for none.
    type: str
    default: /var/lib/specdecode/patches
  about:
    description:
      - With O(state=recorded), what else is to be known, in any form. The keys C(decision), C(engine), C(release),
        C(model), C(draft), C(reasons), C(digest), C(endpoint), C(accept_length) and C(speedup) become facts.
      - A deployment whose C(decision) is V(fail) counts as taken back.
      - C(patches) is added, the applied patches with their sources and digests.
    type: dict
    default: {}
  first:
    description: With O(state=recorded), record only if nothing is recorded yet, which is what was there before.
    type: bool
    default: false
  restores:
    description:
      - With O(state=recorded), the id of a deployment that has been given back. What it was about is taken over.
    type: str
    default: ""
  deployment:
    description: With O(state=restored), the id of the deployment. Empty for the one before the present one.
    type: str
    default: ""
  facts_file:
    description:
      - File of local facts that is kept up to date, read as C(ansible_local.specdecode). Empty for none.
    type: str
    default: /etc/ansible/facts.d/specdecode.fact
attributes:
  check_mode:
    description: Says what would be written, and writes nothing.
    support: full
  diff_mode:
    description: Lists the files by path, kind and digest; never their content.
    support: full
  platform:
    description: Needs a POSIX system.
    platforms: posix
    support: full
seealso:
  - module: blackwell.inference.engine_patch
  - module: blackwell.inference.pyc_invalidate
"""

EXAMPLES = r"""
- name: Record what is deployed
  blackwell.inference.deployment_record:
    files: [/etc/specdecode/main.env, /etc/specdecode/nccl.env]
    trees: [/etc/systemd/system/specdecode@main.service.d]
    about: {decision: keep, engine: vllm, release: 0.32.0}

- name: Say what going back would change
  blackwell.inference.deployment_record:
    state: restored
  check_mode: true
  diff: true
"""

RETURN = r"""
id:
  description: Id of the deployment that was recorded, is in force, or was given back.
  type: str
  returned: success
  sample: main-0003-5f1c08d2a9be
deployment:
  description: Its record without the files.
  type: dict
  returned: success
  sample:
    id: main-0003-5f1c08d2a9be
    time: "2026-11-30T14:02:11Z"
    before: main-0002-0a1b2c3d4e5f
    restores: ""
    about: {decision: keep}
in_force:
  description: Id of the newest deployment that was not taken back, before this run. Empty when there is none.
  type: str
  returned: success
history:
  description: All records of the instance without the files, the oldest first.
  type: list
  elements: dict
  returned: success
files:
  description: Paths that were given back, or would be.
  type: list
  elements: str
  returned: O(state=restored)
sources:
  description: Sources that are patched now, in the deployment, or in another one; their bytecode has to be judged.
  type: list
  elements: str
  returned: O(state=restored)
"""

import contextlib
import datetime
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._deployment_files import (
    Change,
    FilesError,
    apply,
)
from ansible_collections.blackwell.inference.plugins.module_utils._deployment_record import (
    Record,
    RecordError,
    Scope,
    announce,
    changes_to,
    find,
    first_is_recorded,
    in_force,
    next_record,
    patches_of,
    read_records,
    restoring_record,
    sources_of,
    survey,
    write_facts,
    write_record,
)
from ansible_collections.blackwell.inference.plugins.module_utils._lock import LockError, locked
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import StoreError


def summary(record: Record) -> dict[str, Any]:
    """A record without its files."""
    fields = record._asdict()
    del fields["files"], fields["trees"], fields["instance"]
    return fields


def say(change: Change) -> dict[str, str]:
    """A change of a file for --diff, without its content."""
    before, after = (f"{kept.kind} {kept.what} {kept.mode}".strip() + "\n" for kept in (change.now, change.then))
    return {"before_header": change.now.path, "after_header": change.now.path, "before": before, "after": after}


def record_now(params: dict[str, Any], check_mode: bool, warnings: list[str]) -> dict[str, Any]:
    """Write the record of what is there, unless it is the last one."""
    directory, instance = params["directory"], params["instance"]
    records = read_records(directory, instance)
    warnings += records.damaged
    time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    seen = survey(Scope(params["files"], params["trees"], params["patches_directory"]))
    about = {**params["about"], "patches": patches_of(params["patches_directory"])}
    if params["restores"]:
        record = restoring_record(records, find(records, params["restores"]), time)
    elif params["first"] and first_is_recorded(records):
        record = None
    else:
        record = next_record(records, instance, seen, about, time)
    if record is not None and not check_mode:
        write_record(directory, record, seen.contents)
    facts_written = write_facts(directory, params["facts_file"], check_mode) if params["facts_file"] else False
    history = [*records.known, record] if record else records.known
    return {
        "changed": record is not None or facts_written,
        "deployment": summary(history[-1]),
        "history": [summary(item) for item in history],
        "in_force": getattr(in_force(records.known), "id", ""),
        "diff": [{"prepared": "a new deployment is recorded\n"}] if record else [],
    }


def give_back(params: dict[str, Any], check_mode: bool, warnings: list[str]) -> dict[str, Any]:
    """Give back the files of a deployment."""
    records = read_records(params["directory"], params["instance"])
    warnings += records.damaged
    record = find(records, params["deployment"])
    patches = params["patches_directory"]
    # engine_patch must not plan meanwhile
    with locked(patches, create=False) if patches else contextlib.nullcontext():
        changes = changes_to(params["directory"], record, patches)
        sources = sources_of(record, records.known, patches)
        if not check_mode:
            announce(changes, patches)
            apply(changes)
    return {
        "changed": bool(changes),
        "deployment": summary(record),
        "history": [summary(item) for item in records.known],
        "in_force": getattr(in_force(records.known), "id", ""),
        "files": [change.then.path for change in changes],
        "sources": sources,
        "diff": [say(change) for change in changes],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "default": "/var/lib/specdecode/deployments"},
            "instance": {"type": "str", "default": "main"},
            "state": {"type": "str", "choices": ["recorded", "restored"], "default": "recorded"},
            "files": {"type": "list", "elements": "path", "default": []},
            "trees": {"type": "list", "elements": "path", "default": []},
            "patches_directory": {"type": "str", "default": "/var/lib/specdecode/patches"},
            "about": {"type": "dict", "default": {}},
            "first": {"type": "bool", "default": False},
            "restores": {"type": "str", "default": ""},
            "deployment": {"type": "str", "default": ""},
            "facts_file": {"type": "str", "default": "/etc/ansible/facts.d/specdecode.fact"},
        },
        supports_check_mode=True,
    )
    warnings: list[str] = []
    act = record_now if module.params["state"] == "recorded" else give_back
    try:
        with locked(module.params["directory"], act is record_now and not module.check_mode, mode=0o700):
            result = act(module.params, module.check_mode, warnings)
    except (FilesError, LockError, RecordError, StoreError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}; make room or give the right, and run again")
    for warning in warnings:
        module.warn(warning)
    if not module._diff:
        del result["diff"]
    module.exit_json(id=result["deployment"]["id"], **result)


if __name__ == "__main__":
    main()
