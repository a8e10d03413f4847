# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight checks, as data: what is wrong, why it matters, what to do, and where we know it from.

`findings` asks every check that applies to the declared hardware and returns what is to be said.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils import _preflight_fabric as fabric
from ansible_collections.blackwell.inference.plugins.plugin_utils import _preflight_gpu as gpu
from ansible_collections.blackwell.inference.plugins.plugin_utils import _preflight_host as host
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import (
    SEVERITIES,
    Check,
    Facts,
    PreflightError,
    Unknown,
    Wants,
)

HOST_CHECKS = (
    Check(
        "privileges",
        "error",
        host.privileges,
        "packages, units and the environment are installed by root",
        "run the play with become: true",
        "design of this collection, 2026-11",
        acceptable=False,
    ),
    Check(
        "distribution",
        "warning",
        host.distribution,
        "the roles are tested on Debian 12 and 13 and made for Ubuntu 22.04 and later long-term releases",
        "try the deployment in check mode first (ansible-playbook --check)",
        "scenarios of this collection, 2026-11",
    ),
    Check(
        "architecture",
        "error",
        host.architecture,
        "a lock holds wheels of one machine architecture",
        "set ml_env_lock to a lock made for this machine",
        "heads of the locks of this collection, 2026-11",
        acceptable=False,
    ),
    Check(
        "glibc",
        "error",
        host.glibc,
        "a manylinux wheel is only installed where the C library is as new as its name says",
        "use a newer release of the distribution, or set ml_env_lock to a lock for older ones",
        "PEP 600; heads of the locks of this collection, 2026-11",
        acceptable=False,
    ),
    Check(
        "node_python",
        "error",
        host.node_python,
        "modules of this collection need Python 3.8 or later on the node",
        "install a newer Python and name it by ansible_python_interpreter",
        "support matrix of ansible-core 2.18 to 2.21, 2026-11",
        acceptable=False,
    ),
    Check(
        "python_missing",
        "error",
        host.python_missing,
        "the environment is made from an interpreter that is on the node; none is downloaded",
        "reinstall it, or set ml_env_python to another interpreter",
        "Debian 12 brings 3.11 and 13 brings 3.13, Ubuntu 24.04 brings 3.12 (2026-11)",
        acceptable=False,
    ),
    Check(
        "python_release",
        "error",
        host.python_release,
        "a lock holds the wheels of one release of Python",
        "set ml_env_python to an interpreter of {python_release}, or ml_env_lock to a lock made for this one",
        "names and heads of the locks of this collection, 2026-11",
        acceptable=False,
    ),
    Check(
        "disk_space",
        "error",
        host.disk_space,
        "environment and weights must fit at the same time; an installation that fills the disk leaves half of itself",
        "free space, or move them by ml_env_directory and node_preflight_weights_directory; "
        "the sizes are node_preflight_disk_environment_gib and node_preflight_disk_weights_gib",
        "measured: CPU environment 3.4 GB, a CUDA build of torch 2.13 alone 5.2 GB (2026-11)",
    ),
    Check(
        "disk_mount",
        "error",
        host.disk_mount,
        "the environment is written by the roles, and its native modules are mapped executable",
        "remount it, or move the environment by ml_env_directory",
        "mount(8), dlopen(3)",
        acceptable=False,
    ),
    Check(
        "model_files",
        "error",
        host.model_files,
        "the server runs offline: a model that is named by directory must be complete before the start",
        "copy the model to the node, then compare with its model.safetensors.index.json",
        "HF_HUB_OFFLINE=1 in the server's environment; an engine reads the index first and dies on the missing shard",
        acceptable=False,
    ),
    Check(
        "memory",
        "error",
        host.memory,
        "the engine's processes and their pinned buffers must fit into memory",
        "give the node more memory, or lower node_preflight_memory_gib if your model needs less",
        "measured: tiny model on the CPU build 3.6 GB (2026-11)",
    ),
    Check(
        "memory_available",
        "warning",
        host.memory_available,
        "what other processes hold is not there for the engine",
        "end what is not needed (ps aux --sort=-rss | head)",
        "the kernel kills the largest process when memory ends, and that is the engine",
    ),
    Check(
        "shm_size",
        "error",
        fabric.shm_size,
        "the processes of an engine pass tensors through /dev/shm, and die of a bus error when it is full",
        "give it more: mount -o remount,size=16G /dev/shm, and the same in /etc/fstab; a container: --shm-size",
        "vendors' container recipes: 8 to 32 GiB, read 2026-11",
    ),
    Check(
        "limits",
        "error",
        fabric.limits,
        "a unit that asks for more than systemd may give ends before its program starts (status 205/LIMITS)",
        "lower inference_server_limits, or raise the limits of the container that the node is (--ulimit)",
        "systemd.exec(5), process exit codes; the lab's nodes, 2026-11",
        acceptable=False,
    ),
    Check(
        "port_taken",
        "error",
        host.port_taken,
        "the server must be the only one that listens at {host}, port {port}",
        "stop that process, or set inference_server_port to another port",
        "bind(2), EADDRINUSE; the other server would answer in place of ours",
        acceptable=False,
    ),
    Check(
        "systemd_missing",
        "error",
        host.systemd_missing,
        "the server is a systemd unit",
        "boot the node with systemd (a container: --systemd=always and /sbin/init)",
        "sd_booted(3)",
        acceptable=False,
    ),
    Check(
        "systemd_state",
        "warning",
        host.systemd_state,
        "a node on which other units failed or still start is not a known start",
        "look at systemctl --failed, and wait with systemctl is-system-running --wait",
        "systemctl(1), is-system-running",
    ),
    Check(
        "clock_skew",
        "error",
        host.clock_skew,
        "clocks of node and controller differ by at most {clock_skew_seconds:g} s: Python judges bytecode by time, "
        "TLS and apt refuse certificates and lists of the future, and times of measurements are compared",
        "set the clock (systemctl restart systemd-timesyncd, or chronyc makestep)",
        "Python language reference, the import system: cached bytecode invalidation",
    ),
    Check(
        "clock_went_back",
        "error",
        host.clock_went_back,
        "an edit made now would be older than the bytecode of what it replaces",
        "set the clock (systemctl restart systemd-timesyncd, or chronyc makestep), then run pyc_invalidate",
        "Python language reference, the import system: cached bytecode invalidation",
    ),
    Check(
        "clock_unsynchronised",
        "info",
        host.clock_unsynchronised,
        "a clock that nobody keeps drifts, and steps when someone sets it",
        "install systemd-timesyncd or chrony; in a container the host keeps the clock",
        "timedatectl(1), NTPSynchronized",
    ),
)

GPU_CHECKS = (
    Check(
        "gpu_driver",
        "error",
        gpu.gpu_driver,
        "a GPU node serves from its GPUs; it never falls back to its CPUs without being told to",
        gpu.DRIVER_INSTALL,
        "design of this collection, 2026-11",
        hardware="gpu",
        acceptable=False,
    ),
    Check(
        "gpu_missing",
        "warning",
        gpu.gpu_missing,
        "every GPU on the bus answers the driver; one that doesn't was lost, taken by another driver, or has no power",
        "look for Xid and RmInit in dmesg, and for vfio-pci with lspci -k; then power-cycle the node",
        "NVIDIA, XID errors: 79, the GPU has fallen off the bus",
        hardware="gpu",
    ),
    Check(
        "gpu_count",
        "error",
        gpu.gpu_count,
        "tensor parallelism takes a GPU for every rank",
        "set inference_server_tensor_parallel to the GPUs that are there, or bring back those that are missing",
        "an engine ends at the start with fewer devices than ranks",
        hardware="gpu",
        acceptable=False,
    ),
    Check(
        "gpu_mixed",
        "warning",
        gpu.gpu_mixed,
        "ranks of one kind: the smallest memory and the slowest GPU bound all of them",
        "choose GPUs of one kind by CUDA_VISIBLE_DEVICES in inference_server_environment",
        "engines size the cache by the rank with the least memory",
        hardware="gpu",
    ),
    Check(
        "gpu_mig",
        "error",
        gpu.gpu_mig,
        "a process sees one MIG instance only, and NCCL has no P2P between instances",
        "nvidia-smi -mig 0, then reset the GPUs or reboot",
        "NVIDIA MIG user guide, application considerations",
        hardware="gpu",
    ),
    Check(
        "gpu_wedged",
        "error",
        gpu.gpu_wedged,
        "after a hang GPUs may stay busy without a process; no restart of the server helps then",
        "nvidia-smi --gpu-reset while nothing runs; if that is refused, reboot the node",
        "operators' reports, 2026: 100 % and 85-140 W with no process after a hung all-reduce",
        hardware="gpu",
    ),
    Check(
        "gpu_orphans",
        "error",
        gpu.gpu_orphans,
        "workers that outlive their server keep the memory of the GPUs, while its port is free",
        "end them by their process id, after a look at what they are",
        "operators' reports, 2026: SIGKILL of the API server leaves its workers",
        hardware="gpu",
    ),
    Check(
        "gpu_busy",
        "warning",
        gpu.gpu_busy,
        "an engine counts on the memory that is free at its start, and others take it away",
        "stop them, or lower inference_server_memory_fraction",
        "vLLM counts gpu_memory_utilization of the whole memory, not of what is free",
        hardware="gpu",
    ),
    Check(
        "driver_flavour",
        "error",
        gpu.driver_flavour,
        "Blackwell works with NVIDIA's open kernel modules only",
        "install the open flavour (Ubuntu: apt-get install nvidia-driver-580-server-open), then reboot",
        "NVIDIA, open-gpu-kernel-modules: Blackwell is supported by the open modules only",
        hardware="gpu",
        acceptable=False,
    ),
    Check(
        "driver_version",
        "error",
        gpu.driver_version,
        "CUDA 12.8 on Blackwell needs driver 570, CUDA 13 needs 580, and other CUDA 12 needs 525",
        "install a newer driver, or set ml_env_lock to a lock with an older CUDA",
        "NVIDIA, CUDA release notes, minimum driver versions; operators' reports, 2026",
        hardware="gpu",
    ),
    Check(
        "lock_cuda",
        "error",
        gpu.lock_cuda,
        "CUDA before 12.8 has no code for Blackwell: no kernel image is available",
        "set ml_env_lock to a lock with CUDA 12.8 or later and torch 2.7 or later",
        "PyTorch 2.7 release notes: the first wheels for Blackwell",
        hardware="gpu",
        acceptable=False,
    ),
    Check(
        "nccl_release",
        "error",
        gpu.nccl_release,
        "NCCL works on Blackwell from 2.27 on",
        "set ml_env_lock to a lock with NCCL 2.27 or later",
        "operators' reports, 2026: 2.25.1 fails on sm_120, 2.26.2 crashes from 512 KiB",
        hardware="gpu",
    ),
    Check(
        "torch_arch",
        "error",
        gpu.torch_arch,
        "the installed torch holds code for every GPU of the node",
        "set ml_env_lock to a lock with CUDA 12.8 or later and run ml_env again",
        "torch.cuda.get_arch_list(); CUDA C++ programming guide, compute capability",
        hardware="gpu",
    ),
    Check(
        "link_width",
        "warning",
        gpu.link_width,
        "every GPU has 16 lanes; the width does not change when a GPU idles",
        "reseat the GPU and its riser, and look at bifurcation in the firmware's setup",
        "PCI Express: lanes that fail in training are left out",
        hardware="gpu",
    ),
    Check(
        "link_generation",
        "warning",
        gpu.link_generation,
        "slots are as fast as the GPUs; the maximum counts, because idle links run at generation 1",
        "set the slot's speed in the firmware's setup, or use another slot or riser",
        "nvidia-smi, max_device_link_gen and max_link_gen; operators' reports, 2026",
        hardware="gpu",
    ),
    Check(
        "bar1",
        "warning",
        gpu.bar1,
        "peers reach a GPU's memory through BAR1, so it spans all of it",
        "turn on above 4G decoding and resizable BAR in the firmware's setup",
        "healthy RTX PRO 6000: BAR1 131072 MiB for 97887 MiB (2026)",
        hardware="gpu",
    ),
    Check(
        "persistence",
        "warning",
        gpu.persistence,
        "without persistence the driver starts anew for every process, and settings of the GPUs are lost",
        "node_preflight_persistence: true, or systemctl enable --now nvidia-persistenced",
        "NVIDIA, driver persistence; operators' recipes, 2026",
        hardware="gpu",
    ),
    Check(
        "iommu_redirect",
        "error",
        fabric.iommu_redirect,
        "a translating IOMMU with ACS redirect above the GPUs hangs the first all-reduce, while nvidia-smi "
        "topo -p2p says OK",
        "put iommu=pt on the kernel command line (GRUB_CMDLINE_LINUX_DEFAULT, update-grub), or turn off ACS "
        "in the firmware's setup, and reboot; in a virtual machine this is up to its host. This role edits no"
        " kernel command line",
        "operators' reports, 2026: every rank says Init COMPLETE, nothing after; NCCL, troubleshooting, PCI "
        "access control services",
        hardware="gpu",
    ),
    Check(
        "iommu_translated",
        "warning",
        fabric.iommu_translated,
        "a translating IOMMU sends peer traffic up to the processor, which slows it down or stops it",
        "put iommu=pt on the kernel command line (GRUB_CMDLINE_LINUX_DEFAULT, update-grub) and reboot",
        "NCCL, troubleshooting, PCI access control services",
        hardware="gpu",
    ),
    Check(
        "acs_redirect",
        "warning",
        fabric.acs_redirect,
        "traffic between GPUs behind one switch turns around in the switch, and does not go up to the processor",
        "turn off ACS in the firmware's setup; in a virtual machine it must stay on",
        "NCCL, troubleshooting, PCI access control services; ReqRedir and CmpltRedir count, SrcValid alone is harmless",
        hardware="gpu",
    ),
    Check(
        "matrix_refused",
        "warning",
        fabric.matrix_refused,
        "NCCL is set by the links between the GPUs; a matrix that can't be trusted is not used",
        "run nvidia-smi topo -m and nvidia-smi topo -p2p r on the node and look",
        "gpu_node_facts refuses a matrix as a whole",
        hardware="gpu",
    ),
    Check(
        "p2p_refused",
        "warning",
        fabric.p2p_refused,
        "GPUs that may not talk to each other directly go through the processor's memory",
        "look at ACS, the IOMMU and BAR1; as long as P2P is refused NCCL takes shared memory by itself, and nccl_env "
        "sets no NCCL_P2P_LEVEL",
        "operators' reports, 2026: 0.4 us with P2P, about 14 us without",
        hardware="gpu",
    ),
    Check(
        "uvm_hmm",
        "warning",
        fabric.uvm_hmm,
        "with HMM on, traffic between GPUs locks up on many hosts",
        "node_preflight_module_options: {{nvidia_uvm: {{uvm_disable_hmm: 1}}}}, then reboot",
        "operators' reports, 2026: uvm_disable_hmm=1 cures P2P lock-ups",
        hardware="gpu",
    ),
    Check(
        "p2p_forced_geforce",
        "error",
        fabric.p2p_forced_geforce,
        "P2P forced upon GeForce gives wrong values at full bandwidth",
        "remove the word from NVreg_RegistryDwords in /etc/modprobe.d, run update-initramfs -u and reboot",
        "operators' reports, 2026: 12.6 GiB/s of wrong values",
        hardware="gpu",
    ),
    Check(
        "p2p_forced",
        "warning",
        fabric.p2p_forced,
        "P2P that the driver would refuse is not proven to carry right values",
        "remove the word from NVreg_RegistryDwords in /etc/modprobe.d and reboot, or prove the values by a "
        "collective test",
        "operators' reports, 2026: ForceP2P gave wrong values on GeForce",
        hardware="gpu",
    ),
    Check(
        "shm_leftovers",
        "warning",
        fabric.shm_leftovers,
        "segments that a crashed server left in /dev/shm turn one crash into a crash loop",
        "remove those files; nobody holds them",
        "operators' reports, 2026: nccl-*, vllm_offload_*, sgl_shm_mm_*, psm_*",
        hardware="gpu",
    ),
    Check(
        "limits_low",
        "warning",
        fabric.limits_low,
        "pinned memory counts against MEMLOCK, and connections and shared tensors against NOFILE",
        "set inference_server_limits to {{MEMLOCK: infinity, NOFILE: 1048576, STACK: 64M}}",
        "vendors' container recipes, read 2026-11",
        hardware="gpu",
    ),
    Check(
        "cpu_governor",
        "warning",
        fabric.cpu_governor,
        "one stream waits for one processor between two kernels, and a slow clock is added to every token",
        "node_preflight_cpu_governor: performance",
        "operators' recipes, 2026",
        hardware="gpu",
    ),
    Check(
        "numa_balancing",
        "warning",
        fabric.numa_balancing,
        "the kernel unmaps pages to see who uses them, and moves memory that engines placed near their GPUs",
        "node_preflight_sysctl: {{kernel.numa_balancing: 0}}",
        "Linux, admin-guide/sysctl/kernel; operators' recipes, 2026",
        hardware="gpu",
    ),
)

CHECKS = HOST_CHECKS + GPU_CHECKS


def findings(facts: Facts, wants: Wants) -> list[dict[str, Any]]:
    """What the checks have to say, the gravest first; PreflightError for an accepted id that no check has."""
    known = [check.id for check in CHECKS]
    for name in wants.accepted:
        if name not in known:
            raise PreflightError(f"no check is called {name!r}, so it can't be accepted; there are {', '.join(known)}")
    found = [_finding(check, facts, wants) for check in CHECKS if check.applies(wants)]
    return sorted((one for one in found if one), key=lambda one: SEVERITIES.index(one["severity"]))


def _finding(check: Check, facts: Facts, wants: Wants) -> dict[str, Any] | None:
    answer = check.finds(facts, wants)
    if answer is None:
        return None
    values = vars(wants)
    unknown = isinstance(answer, Unknown)
    return {
        "id": check.id,
        "severity": _milder(check.severity) if unknown else check.severity,
        "found": f"can't be known: {answer.reason}" if isinstance(answer, Unknown) else answer.found,
        "rule": check.rule.format_map(values),
        "remedy": (not isinstance(answer, Unknown) and answer.remedy) or check.remedy.format_map(values),
        "evidence": check.evidence,
        "accepted": check.id in wants.accepted,
        "acceptable": check.acceptable or unknown,
    }


def _milder(severity: str) -> str:
    return SEVERITIES[min(SEVERITIES.index(severity) + 1, len(SEVERITIES) - 1)]
