#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stale_process_info
short_description: Find processes that run older code than what is on disk
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Finds the processes of Python environments that started before the newest change of the environment's code, with the
    systemd unit of each. Such a process runs the old code, whatever was done to the files or to their bytecode.
  - A process belongs to an environment when its arguments, its interpreter as found through its own E(PATH), its
    E(VIRTUAL_ENV), E(PYTHONPATH) or E(PYTHONHOME), or a file that it has mapped lies there. Mapped files are found by
    device and inode, too, so that processes that rename themselves or see another file system tree count.
  - A process that was forked carries the code of the process that it came from. So it is dated by the oldest living
    process with the same program in memory.
  - A file's change is that of its inode, which cannot be put back like its modification time. For a file with several
    links, linking it into another environment does not count.
  - Changes nothing. Linux only.
notes:
  - Not seen are code directories that a program adds to its C(sys.path) itself (unless it mapped a library there), a
    deleted source, and a worker whose master is dead, when it was forked before a change and looks newer.
  - A change of owner or mode counts as a change, and so does a change after the start but before the import. Both only
    make a process look stale that is not.
  - When the clock was set after a process started, its start is taken by the new clock, and changes before that by the
    old one.
  - Without privileges only one's own processes show more than their arguments. RV(hidden) counts the others, and the
    module warns.
options:
  path:
    description:
      - Environments, checkouts or single files. Their code is all files named C(*.py), C(*.so), C(*.pth), and C(*.pyc)
        outside of C(__pycache__). Links to directories are not followed.
    type: list
    elements: path
    required: true
    aliases: [paths]
attributes:
  check_mode:
    description: Can run in check mode and give the same result, because it changes nothing.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
"""

EXAMPLES = r"""
- name: Look for processes that run old code
  blackwell.inference.stale_process_info:
    path: /opt/specdecode/ml-env
  register: processes

- name: Restart their units
  ansible.builtin.systemd_service:
    name: "{{ item }}"
    state: restarted
  loop: "{{ processes.units }}"
"""

RETURN = r"""
stale:
  description: Processes that run older code than what is on disk.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: Number of the process.
      type: int
      sample: 4711
    ppid:
      description: Number of its parent.
      type: int
      sample: 1
    unit:
      description: Its systemd unit, or null.
      type: str
      sample: specdecode@main.service
    command:
      description: The program and its first two arguments.
      type: str
      sample: /opt/specdecode/ml-env/bin/python -m sglang.launch_server
    started:
      description: When the process started, in seconds since 1970.
      type: float
      sample: 1795000000.12
    code_from:
      description: When the oldest process with the same program in memory started. What counts.
      type: float
      sample: 1794999990.5
    evidence:
      description: What shows that the process belongs to the environment.
      type: list
      elements: str
      sample: [argument 0, VIRTUAL_ENV, mapped file]
    changed_since:
      description: Number of files that changed since.
      type: int
      sample: 2
    files:
      description: The newest of them, at most 20.
      type: list
      elements: str
      sample: [/opt/specdecode/ml-env/lib/python3.12/site-packages/sglang/srt/models/kimi_k25.py]
current:
  description: Processes of the environments that run what is on disk, described like RV(stale).
  returned: always
  type: list
  elements: dict
  sample: []
units:
  description: The systemd units of the stale processes.
  returned: always
  type: list
  elements: str
  sample: [specdecode@main.service]
newest:
  description: The file of code that changed last, and when.
  returned: always, null when there is no code
  type: dict
  sample: {path: /opt/specdecode/ml-env/lib/python3.12/site-packages/sglang/srt/models/kimi_k25.py, time: 1795000100.2}
files:
  description: Number of files of code.
  returned: always
  type: int
  sample: 34055
examined:
  description: Number of processes that were looked at.
  returned: always
  type: int
  sample: 125
hidden:
  description: Processes whose environment or mapped files could not be read.
  returned: always
  type: int
  sample: 0
unreadable:
  description: Directories that could not be read, with the reason.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._process_age import find_stale


def main() -> None:
    """Ansible's entry point."""
    module = AnsibleModule(
        argument_spec={"path": {"type": "list", "elements": "path", "required": True, "aliases": ["paths"]}},
        supports_check_mode=True,
    )
    try:
        result = find_stale(module.params["path"])
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{error}. Name an environment or file that exists on the node.")
    if result["hidden"]:
        module.warn(f"{result['hidden']} processes of other users could not be looked into; run with become.")
    if result["unreadable"]:
        module.warn(f"Code that could not be read: {'; '.join(result['unreadable'][:5])}")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
