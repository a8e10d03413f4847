# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight: what any node can fail. Each function states the fact that breaks its rule, or nothing."""

from __future__ import annotations

import ipaddress
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import (
    GIB,
    Answer,
    Broken,
    Facts,
    Unknown,
    Wants,
    release_of,
)

MACHINE_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
# Releases that the roles are tested on (Debian) or made for (Ubuntu).
DISTRIBUTIONS = {"debian": ("12", "13"), "ubuntu": ("22.04", "24.04", "26.04")}


def privileges(facts: Facts, _wants: Wants) -> Answer:
    """Installing packages and units takes root."""
    uid = facts.get("node.system.uid")
    if isinstance(uid, Unknown) or uid == 0:
        return uid if isinstance(uid, Unknown) else None
    return Broken(f"the tasks run as user {uid}")


def distribution(facts: Facts, _wants: Wants) -> Answer:
    """Releases of distributions that the roles were made for."""
    name, version = facts.get("node.system.distribution"), facts.get("node.system.version")
    if isinstance(name, Unknown) or isinstance(version, Unknown):
        return Unknown("the node does not say which distribution it runs")
    if version in DISTRIBUTIONS.get(name, ()):
        return None
    return Broken(f"the node runs {name or 'an unnamed distribution'} {version}".rstrip())


def architecture(facts: Facts, wants: Wants) -> Answer:
    """The machine that the lock's wheels were built for."""
    machine = facts.get("node.system.architecture")
    if not wants.architecture or isinstance(machine, Unknown):
        return machine if wants.architecture else None
    same = MACHINE_NAMES.get(machine, machine) == MACHINE_NAMES.get(wants.architecture, wants.architecture)
    return None if same else Broken(f"the node is {machine}, the lock was made for {wants.architecture}")


def glibc(facts: Facts, wants: Wants) -> Answer:
    """The C library that the lock's wheels need."""
    if not wants.glibc:
        return None
    version = facts.get("node.system.glibc")
    if isinstance(version, Unknown) or not version:
        return Unknown("the node's Python does not say which C library it uses")
    if release_of(version) >= release_of(wants.glibc):
        return None
    return Broken(f"the node has glibc {version}, the lock needs {wants.glibc}")


def node_python(facts: Facts, _wants: Wants) -> Answer:
    """The Python that Ansible's modules run in."""
    version = facts.get("node.system.python")
    if isinstance(version, Unknown) or release_of(version) >= (3, 8):
        return version if isinstance(version, Unknown) else None
    return Broken(f"Ansible uses Python {version} on the node")


def python_missing(facts: Facts, wants: Wants) -> Answer:
    """The interpreter that the environment is made from."""
    seen = facts.get("node.interpreter")
    if isinstance(seen, Unknown):
        return seen
    others = ", ".join(seen["others"]) or "none"
    if not seen["path"]:
        return Broken(f"{wants.python} is not on the node (there: {others})", _python_remedy(wants.python, seen))
    if seen["error"]:
        return Broken(f"{seen['path']} does not run: {seen['error']}")
    return None


def _python_remedy(name: str, seen: dict[str, Any]) -> str:
    package = name.rsplit("/", 1)[-1]
    remedy = f"install it (apt-get install {package} {package}-venv, where the distribution has it)"
    if seen["others"]:
        remedy += f", or set ml_env_python to {seen['others'][-1]} and ml_env_lock to a lock made for it"
    return remedy


def python_release(facts: Facts, wants: Wants) -> Answer:
    """The release of Python that the lock was made for."""
    release = facts.get("node.interpreter.release")
    if not wants.python_release or isinstance(release, Unknown):
        # that the interpreter is missing or broken is said by its own check
        return None
    if release_of(release)[:2] == release_of(wants.python_release)[:2]:
        return None
    return Broken(f"{wants.python} is Python {release}, the lock was made for {wants.python_release}")


def disk_space(facts: Facts, wants: Wants) -> Answer:
    """Free space for everything that is still to come, summed up where places share a file system."""
    seen = facts.get("node.disks")
    if isinstance(seen, Unknown):
        return seen
    short = []
    for device in sorted({place["device"] for place in seen.values()}):
        names = [name for name, place in seen.items() if place["device"] == device]
        needed = {name: _still_needed(name, facts, wants) for name in names}
        free = min(seen[name]["free"] for name in names)
        if sum(needed.values()) > free:
            parts = " + ".join(
                f"{bytes_ / GIB:.1f} GiB for the {name} in {seen[name]['path']}"
                for name, bytes_ in needed.items()
                if bytes_
            )
            short.append(f"{seen[names[0]]['place']} has {free / GIB:.1f} GiB free of {parts}")
    return Broken("; ".join(short)) if short else None


def _still_needed(name: str, facts: Facts, wants: Wants) -> float:
    """Bytes that a place will still take: what it needs in all, less what lies there."""
    place = facts.get("node.disks")[name]
    needed = next(float(disk["needed_gib"]) for disk in wants.disks if disk["name"] == name) * GIB
    if name == "weights" and _models_complete(facts, wants):
        return 0
    return max(0.0, needed - (place["used"] or 0))


def _models_complete(facts: Facts, wants: Wants) -> bool:
    models = facts.get("node.models")
    return bool(wants.models) and not isinstance(models, Unknown) and all(_model_whole(model) for model in models)


def _model_whole(model: dict[str, Any]) -> bool:
    return bool(model["config"]) and not model["missing"]


def disk_mount(facts: Facts, _wants: Wants) -> Answer:
    """Places that are written to, or that native modules are loaded from."""
    seen = facts.get("node.disks")
    if isinstance(seen, Unknown):
        return seen
    broken = [
        f"{place['place']} is mounted read-only, and {name} would be written to {place['path']}"
        for name, place in seen.items()
        if place["read_only"] and name != "weights"
    ]
    broken += [
        f"{place['place']} is mounted noexec, and the {name} in {place['path']} holds native modules"
        for name, place in seen.items()
        if place["no_exec"] and name == "environment"
    ]
    return Broken("; ".join(broken)) if broken else None


def model_files(facts: Facts, _wants: Wants) -> Answer:
    """Models that are named by directory must be there, with every file of their index."""
    models = facts.get("node.models")
    if isinstance(models, Unknown):
        return models
    broken = []
    for model in models:
        if not model["exists"]:
            broken.append(f"{model['path']} is not on the node")
        elif not model["config"]:
            broken.append(f"{model['path']} has no config.json")
        elif model["missing"]:
            broken.append(f"{model['path']} lacks {', '.join(model['missing'])}, which its index names")
    return Broken("; ".join(broken)) if broken else None


def memory(facts: Facts, wants: Wants) -> Answer:
    """Memory of the node, or of the control group that confines it."""
    total = facts.get("node.memory.total")
    if isinstance(total, Unknown) or total >= wants.memory_gib * GIB:
        return total if isinstance(total, Unknown) else None
    return Broken(f"the node has {total / GIB:.1f} GiB of {wants.memory_gib:g} GiB")


def memory_available(facts: Facts, wants: Wants) -> Answer:
    """Memory that is free now; not judged while our own server runs, because that is what takes it."""
    available, manager = facts.get("node.memory.available"), facts.get("node.service_manager")
    if isinstance(available, Unknown) or memory(facts, wants):
        # too little in all is said by its own check
        return available if isinstance(available, Unknown) else None
    running = not isinstance(manager, Unknown) and manager["unit_active"]
    if running or available >= wants.memory_gib * GIB:
        return None
    return Broken(f"other processes leave {available / GIB:.1f} GiB of {wants.memory_gib:g} GiB")


def port_taken(facts: Facts, wants: Wants) -> Answer:
    """Someone else who listens where the server will."""
    listeners = facts.get("node.listeners")
    if isinstance(listeners, Unknown):
        return listeners
    others = [one for one in listeners if one["unit"] != wants.unit and _overlap(one["address"], wants.host)]
    if not others:
        return None
    return Broken(f"port {wants.port} is taken by {', '.join(sorted({_holder(one) for one in others}))}")


def _holder(listener: dict[str, Any]) -> str:
    if listener["pid"] is None:
        return f"a process that we may not see (address {listener['address']})"
    unit = f" of {listener['unit']}" if listener["unit"] else ""
    return f"{listener['command']} (process {listener['pid']}{unit}, address {listener['address']})"


def _overlap(one: str, other: str) -> bool:
    """Whether two addresses can't both be listened at: equal, or one of them stands for all."""
    try:
        first, second = _address(one), _address(other)
    except ValueError:  # a host name: which address it will be is only known on the node
        return True
    return first == second or first.is_unspecified or second.is_unspecified


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address("127.0.0.1" if text == "localhost" else text)
    return getattr(address, "ipv4_mapped", None) or address


def systemd_missing(facts: Facts, _wants: Wants) -> Answer:
    """Units need systemd as the first process."""
    manager = facts.get("node.service_manager")
    if isinstance(manager, Unknown) or manager["running"]:
        return manager if isinstance(manager, Unknown) else None
    return Broken(f"the first process is {manager['first_process']}, and /run/systemd/system is not there")


def systemd_state(facts: Facts, wants: Wants) -> Answer:
    """A system that has come up without failures."""
    manager = facts.get("node.service_manager")
    if isinstance(manager, Unknown) or not manager["running"] or manager["state"] == "running":
        return None
    others = [unit for unit in manager["failed"] if unit != wants.unit]
    if manager["state"] == "degraded" and not others:
        # our own unit failed: the deployment is about to mend that
        return None
    return Broken(f"systemd is {manager['state']}" + (f": {', '.join(others)} failed" if others else ""))


def clock_skew(facts: Facts, wants: Wants) -> Answer:
    """The node's clock against the controller's. The true difference lies between two bounds: the look took time."""
    time = facts.get("node.clock.time")
    if isinstance(time, Unknown) or wants.controller_sent is None or wants.controller_received is None:
        return time if isinstance(time, Unknown) else Unknown("the controller's time was not given")
    if time > wants.controller_received + wants.clock_skew_seconds:
        return Broken(
            f"the node's clock is at least {time - wants.controller_received:.0f} s ahead of the controller's"
        )
    if time < wants.controller_sent - wants.clock_skew_seconds:
        return Broken(f"the node's clock is at least {wants.controller_sent - time:.0f} s behind the controller's")
    return None


def clock_went_back(facts: Facts, _wants: Wants) -> Answer:
    """What was installed is not newer than now."""
    time, newest = facts.get("node.clock.time"), facts.get("node.clock.newest")
    if isinstance(time, Unknown) or isinstance(newest, Unknown) or newest <= time:
        return None
    return Broken(f"the environment was verified {newest - time:.0f} s in the future of the node's clock")


def clock_unsynchronised(facts: Facts, _wants: Wants) -> Answer:
    """Whether something keeps the clock right."""
    synchronised = facts.get("node.clock.synchronised")
    return Broken("no time service has set the node's clock") if synchronised is False else None
