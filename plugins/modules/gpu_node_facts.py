#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One read-only look at a node and its GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_facts
short_description: Look at the GPUs of a node, how they are connected, and who holds them
version_added: 0.1.0
description:
  - Takes one look at a node, and returns it as C(ansible_facts.gpu_node).
  - It asks C(nvidia-smi) for the XML of all GPUs, their compute capability, the link matrix and the peer-to-peer
    matrix, each once and all at the same time. Everything else it reads from C(/proc), C(/sys) and C(/dev/shm).
  - What cannot be known is V(null), and C(gpu_node.reasons) says why, under the path of the fact, as in
    C(gpu_node.reasons['gpus.3.mig']), or of what it is part of, as in C(gpu_node.reasons.driver). Nothing is guessed.
    In particular a matrix is returned whole or not at all.
  - A node without a driver, or with one that does not work, is no failure. RV(ansible_facts.gpu_node.driver.state) says
    so, and RV(ansible_facts.gpu_node.pci_gpus) still tells which GPUs the PCI bus shows.
  - It does not change the node. Without root it knows less, and says of what.
options:
  nvidia_smi:
    description:
      - The program to ask.
      - By default the V(nvidia-smi) found on the path, and none if O(root) is not V(/).
    type: path
  timeout:
    description:
      - How long C(nvidia-smi) may take, in seconds. With a wedged GPU it can hang forever.
      - Eight GPUs without persistence mode take some 10 seconds.
    type: int
    default: 60
  root:
    description:
      - The directory below which C(/proc), C(/sys) and C(/dev/shm) are looked up.
      - Another one than V(/) is for a recording of some other host.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what it would without.
    support: full
  diff_mode:
    description: Returns details on what has changed, or would.
    support: N/A
    details: The module changes nothing.
  facts:
    description: Returns facts of the node in C(ansible_facts).
    support: full
  platform:
    description: The operating systems it runs on.
    support: full
    platforms: linux
author:
  - the blackwell.inference authors (@blackwell-inference)
"""

EXAMPLES = r"""
- name: Look at the GPUs of the node
  blackwell.inference.gpu_node_facts:

- name: Require eight GPUs and a driver that answers
  ansible.builtin.assert:
    that:
      - gpu_node.driver.state == 'working'
      - gpu_node.gpus | length == 8
    fail_msg: "{{ gpu_node.reasons.driver | default('not eight GPUs') }}"

- name: Warn about traffic between GPUs that an IOMMU would stop
  ansible.builtin.debug:
    msg: >-
      The IOMMU translates, and a bridge above the GPUs redirects:
      {{ gpu_node.acs.bridges | selectattr('request_redirect') | map(attribute='bus_id') | join(', ') }}
  when:
    - gpu_node.iommu.mode == 'translated'
    - gpu_node.acs.redirect is true

- name: Look at a recording of another host
  blackwell.inference.gpu_node_facts:
    root: /srv/recordings/rack4-node2
    nvidia_smi: /srv/recordings/rack4-node2/nvidia-smi
"""

RETURN = r"""
ansible_facts:
  description: The facts, to be used as C(gpu_node) or C(ansible_facts.gpu_node).
  returned: always
  type: complex
  contains:
    gpu_node:
      description: What the node showed. Each value may be V(null), with an entry in C(reasons).
      returned: always
      type: complex
      contains:
        driver:
          description: The driver of the GPUs.
          returned: always
          type: complex
          contains:
            state:
              description:
                - V(working) if C(nvidia-smi) described the GPUs.
                - V(absent) if neither a driver is loaded nor C(nvidia-smi) installed.
                - V(no-program) if a driver is loaded, and C(nvidia-smi) is not installed.
                - V(not-running) if C(nvidia-smi) finds no driver.
                - V(mismatch) if driver and library are of different releases, as after an upgrade without a reboot.
                - V(no-devices) if the driver has no GPU.
                - V(gpu-lost) if a GPU fell off the bus.
                - V(hung) if C(nvidia-smi) did not end in time.
                - V(failed) for anything else.
              type: str
            version:
              description: The release of the kernel module.
              type: str
              sample: 595.58.03
            flavour:
              description: V(open) or V(proprietary) kernel modules. Blackwell needs the open ones.
              type: str
            cuda_version:
              description: The newest CUDA that the driver supports.
              type: str
              sample: '13.2'
        gpus:
          description:
            - The GPUs, in the order of C(nvidia-smi). An empty list if the PCI bus shows none.
            - If C(nvidia-smi) counts more GPUs than it describes, C(reasons.gpus) says so.
          returned: always
          type: list
          elements: dict
          contains:
            index:
              description: The number that C(nvidia-smi) and the matrices use. CUDA's differs by default.
              type: int
            name:
              description: The product name.
              type: str
            edition:
              description: V(server), V(max-q) or V(workstation) for an RTX PRO 6000 Blackwell.
              type: str
            device_id:
              description: The PCI device id.
              type: str
              sample: 2BB5
            bus_id:
              description: The PCI address as sysfs writes it.
              type: str
              sample: '0000:06:00.0'
            uuid:
              description: The UUID that C(CUDA_VISIBLE_DEVICES) accepts.
              type: str
            minor:
              description: The number of the device file C(/dev/nvidiaN). It often differs from C(index).
              type: int
            compute_capability:
              description: The compute capability.
              type: str
              sample: '12.0'
            memory_mib:
              description: Memory in MiB.
              type: int
            memory_used_mib:
              description: Used memory in MiB.
              type: int
            bar1_mib:
              description: Size of BAR1 in MiB. Less than the memory means that peers cannot reach all of it.
              type: int
            utilization_percent:
              description: How busy the GPU is.
              type: int
            power_draw_w:
              description: Power in W that the GPU takes now.
              type: float
            power_limit_w:
              description: The power limit in force in W.
              type: float
            power_limit_max_w:
              description: The highest power limit in W that can be set.
              type: float
            persistence:
              description: Whether persistence mode is on.
              type: bool
            ecc:
              description: Whether ECC is on.
              type: bool
            mig:
              description: Whether MIG is on. V(null) for GPUs that have no MIG.
              type: bool
            mig_devices:
              description: How many MIG devices there are.
              type: int
            addressing_mode:
              description: V(hmm), V(ats) or V(none).
              type: str
            recovery_action:
              description: What the driver asks for after an error, V(none) if nothing.
              type: str
            pcie_generation_max:
              description: The highest generation that GPU and host have in common.
              type: int
            pcie_generation_max_device:
              description: The highest generation of the GPU.
              type: int
            pcie_generation_max_host:
              description: The highest generation of the slot.
              type: int
            pcie_generation_current:
              description: The generation now. An idle link runs at V(1); that is no fault.
              type: int
            pcie_width_max:
              description: The highest number of lanes.
              type: int
            pcie_width_current:
              description: The number of lanes now.
              type: int
            numa_node:
              description: The NUMA node that the GPU is attached to, by sysfs.
              type: int
            local_cpus:
              description: The CPUs near the GPU, by sysfs.
              type: str
              sample: 0-63,128-191
        pci_gpus:
          description: The NVIDIA GPUs that the PCI bus shows, whatever the driver says, as C(bus_id), C(device_id) and
            the kernel C(driver) that has it.
          returned: always
          type: list
          elements: dict
        links:
          description:
            - How each pair of GPUs is connected, as rows of labels in the order of C(gpus), with V(X) on the diagonal.
            - The labels are those of C(nvidia-smi topo -m), as in V(PIX), V(PXB), V(PHB), V(NODE), V(SYS) and V(NV4).
          returned: always
          type: list
          elements: list
          sample: [[X, PIX], [PIX, X]]
        p2p:
          description: Whether the driver offers reads between each pair of GPUs. V(OK) does not prove that they work.
          returned: always
          type: list
          elements: list
          sample: [[X, OK], [OK, X]]
        iommu:
          description: How the IOMMU treats the GPUs.
          returned: always
          type: complex
          contains:
            mode:
              description:
                - V(off), V(passthrough) or V(translated). V(translated) if one GPU is.
                - V(null) in a virtual machine that does not translate itself, since the IOMMU of its host is not seen.
              type: str
            types:
              description: The kernel's word for the IOMMU group of each GPU that is in one, by its PCI address.
              type: dict
        acs:
          description: Access Control Services of the bridges above the GPUs, from their PCI configuration space.
          returned: always
          type: complex
          contains:
            redirect:
              description:
                - Whether a bridge sends traffic between GPUs up to the root complex.
                - V(null) in a virtual machine, which does not see the bridges of its host, and without root.
              type: bool
            bridges:
              description:
                - Each bridge with its C(bus_id), the GPUs below it (C(above), by PCI address), and whether it is
                  C(capable) of ACS.
                - C(request_redirect) and C(completion_redirect) are what counts. C(source_validation) is harmless.
              type: list
              elements: dict
        kernel_arguments:
          description: The arguments of the kernel command line that concern the IOMMU, PCI and the GPU drivers.
          returned: always
          type: list
          elements: str
        module_parameters:
          description: Parameters of the loaded modules, C(nvidia), C(nvidia_uvm), and C(registry_words) of the driver.
          returned: always
          type: dict
        processes:
          description:
            - The processes that hold a GPU, with C(pid), C(name), C(state), C(parent), C(session), C(uid) and the
              systemd C(unit), empty if it is in none.
            - C(listed) is false for one that has CUDA open on a GPU although C(nvidia-smi) does not list it. Else
              C(gpus) has the indexes of its GPUs, and C(memory_mib) its memory on all of them.
            - C(orphan) is true if its parent is PID 1 and the leader of its session is gone.
            - If C(reasons['processes.unlisted']) exists, there may be more.
          returned: always
          type: list
          elements: dict
        shm:
          description: Shared memory.
          returned: always
          type: complex
          contains:
            size_mib:
              description: The size of C(/dev/shm) in MiB.
              type: int
            leftovers:
              description: Segments of inference servers in C(/dev/shm) with C(path), C(size_bytes), the processes that
                hold it (C(holders)), and whether nobody does (C(orphan)).
              type: list
              elements: dict
        cpu:
          description: The processors, as C(vendor), C(model), C(governors) and C(numa_balancing).
          returned: always
          type: dict
        numa_nodes:
          description: The NUMA nodes, as C(node) and C(cpus).
          returned: always
          type: list
          elements: dict
        virtual_machine:
          description: Whether this is a virtual machine.
          returned: always
          type: bool
        reasons:
          description: Why facts are V(null), by their path.
          returned: always
          type: dict
"""

import shutil
from typing import Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_commands import Outcome, run_together
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_node import Ask, read_node


def main() -> None:
    """Read the node, and return it as facts."""
    module = AnsibleModule(
        argument_spec={
            "nvidia_smi": {"type": "path"},
            "timeout": {"type": "int", "default": 60},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    if module.params["timeout"] < 1:
        module.fail_json(msg=f"timeout: {module.params['timeout']} is too short; give at least 1 second")
    tree = Tree(module.params["root"])
    try:
        tree.names("/proc")
    except UnreadableError as error:
        module.fail_json(msg=f"root: {module.params['root']} does not hold the files of a node ({error})")
    module.exit_json(changed=False, ansible_facts={"gpu_node": read_node(tree, _nvidia_smi(module, tree))})


def _nvidia_smi(module: AnsibleModule, tree: Tree) -> Ask | None:
    """What asks nvidia-smi; None: there is none. This node's own is not asked about another host's files."""
    named, timeout = module.params["nvidia_smi"], module.params["timeout"]
    program = shutil.which(named or "nvidia-smi")
    if named and program is None:
        module.fail_json(msg=f"nvidia_smi: {named} is no program; without this option it is looked up on the path")
    if program is None or (tree.root != "/" and not named):
        return None
    path = program

    def ask(queries: Sequence[Sequence[str]]) -> list[Outcome]:
        return run_together([[path, *query] for query in queries], timeout)

    return ask


if __name__ == "__main__":
    main()
