# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight checks, as data: what is wrong, why it matters, what to do, and where we know it from.

`findings` asks every check that applies to the declared hardware and returns what is to be said.
"""

from __future__ import annotations

from typing import Any

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
    ),
    Check(
        "glibc",
        "error",
        host.glibc,
        "a manylinux wheel is only installed where the C library is as new as its name says",
        "use a newer release of the distribution, or set ml_env_lock to a lock for older ones",
        "PEP 600; heads of the locks of this collection, 2026-11",
    ),
    Check(
        "node_python",
        "error",
        host.node_python,
        "modules of this collection need Python 3.8 or later on the node",
        "install a newer Python and name it by ansible_python_interpreter",
        "support matrix of ansible-core 2.18 to 2.21, 2026-11",
    ),
    Check(
        "python_missing",
        "error",
        host.python_missing,
        "the environment is made from an interpreter that is on the node; none is downloaded",
        "reinstall it, or set ml_env_python to another interpreter",
        "Debian 12 brings 3.11 and 13 brings 3.13, Ubuntu 24.04 brings 3.12 (2026-11)",
    ),
    Check(
        "python_release",
        "error",
        host.python_release,
        "a lock holds the wheels of one release of Python",
        "set ml_env_python to python{python_release}, or ml_env_lock to a lock made for this interpreter",
        "names and heads of the locks of this collection, 2026-11",
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
    ),
    Check(
        "model_files",
        "error",
        host.model_files,
        "the server runs offline: a model that is named by directory must be complete before the start",
        "copy the model to the node, then compare with its model.safetensors.index.json",
        "HF_HUB_OFFLINE=1 in the server's environment; an engine reads the index first and dies on the missing shard",
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
        "port_taken",
        "error",
        host.port_taken,
        "the server must be the only one that listens at {host}, port {port}",
        "stop that process, or set inference_server_port to another port",
        "a server that can't bind ends after it has loaded the weights",
    ),
    Check(
        "systemd_missing",
        "error",
        host.systemd_missing,
        "the server is a systemd unit",
        "boot the node with systemd (a container: --systemd=always and /sbin/init)",
        "sd_booted(3)",
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
        "clocks of node and controller differ by at most {clock_skew_seconds:g} s: Python judges bytecode by time, TLS and "
        "apt refuse certificates and lists of the future, and times of measurements are compared",
        "set the clock (systemctl restart systemd-timesyncd, or chronyc makestep)",
        "PEP 3147: a pyc file holds mtime and size of its source",
    ),
    Check(
        "clock_went_back",
        "error",
        host.clock_went_back,
        "an edit made now would be older than the bytecode of what it replaces",
        "set the clock (systemctl restart systemd-timesyncd, or chronyc makestep), then run pyc_invalidate",
        "PEP 3147: a pyc file holds mtime and size of its source",
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
        gpu.DRIVER_MISSING,
        "design of this collection, 2026-11",
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
    }


def _milder(severity: str) -> str:
    return SEVERITIES[min(SEVERITIES.index(severity) + 1, len(SEVERITIES) - 1)]
