# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter nccl_environment: what a node gets and why, what is refused, and that it always answers or refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.filter.nccl_environment import FilterModule, nccl_environment
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_node import read_node
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_names import KNOWN
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_rules import CONSIDERED, PROFILES, RULES
from ansible_collections.blackwell.inference.tests.replay import hosts, recording
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import answers_of
from hypothesis import given, settings
from hypothesis import strategies as st


def square(count: int, label: Any) -> list[list[str]]:
    """A matrix with X on the diagonal; `label` is the others' or a function of the pair."""
    return [
        ["X" if row == column else label(row, column) if callable(label) else label for column in range(count)]
        for row in range(count)
    ]


def two_sockets(row: int, column: int) -> str:
    return "NODE" if (row < 4) == (column < 4) else "SYS"


def node(count: int = 8, links: Any = two_sockets, p2p: Any = "OK", **more: Any) -> dict[str, Any]:
    return {
        "gpus": [{"index": index, "mig": "N/A"} for index in range(count)],
        "links": square(count, links) if links else None,
        "p2p": square(count, p2p) if p2p else None,
        "iommu": {"mode": "passthrough"},
        "acs": {"redirect": False},
        "cpu": {"vendor": "AuthenticAMD"},
        "reasons": {},
        **more,
    }


HANGING: dict[str, Any] = {"iommu": {"mode": "translated"}, "acs": {"redirect": True}}


def values(result: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in result["variables"]}


ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("facts", "profile", "expected", "note"),
    [
        (node(), "conservative", ORDER, "NCCL's own choices"),
        (node(), "latency", {**ORDER, "NCCL_P2P_LEVEL": "SYS", "NCCL_PROTO": "LL"}, ""),
        (node(), "throughput", {**ORDER, "NCCL_P2P_LEVEL": "SYS"}, ""),
        (node(cpu={"vendor": "GenuineIntel"}), "latency", {**ORDER, "NCCL_P2P_LEVEL": "SYS"}, ""),
        (node(cpu=None), "latency", {**ORDER, "NCCL_P2P_LEVEL": "SYS"}, ""),
        (node(links="NODE"), "latency", {**ORDER, "NCCL_P2P_LEVEL": "PHB"}, ""),
        (node(links="PHB"), "throughput", {**ORDER, "NCCL_P2P_LEVEL": "PHB"}, ""),
        (node(links="PIX"), "latency", ORDER, "default reach"),
        (node(links="PXB"), "throughput", ORDER, "default reach"),
        (node(links=lambda row, column: "PIX" if row // 4 == column // 4 else "NODE"), "latency",
         {**ORDER, "NCCL_P2P_LEVEL": "PHB"}, ""),
        (node(links="NV18"), "latency", ORDER, "NVLink"),
        (node(links="SOC"), "throughput", {**ORDER, "NCCL_P2P_LEVEL": "SYS"}, ""),
        (node(2, "SYS"), "latency", ORDER, "two GPUs on AMD"),
        (node(2, "SYS", cpu={"vendor": "GenuineIntel"}), "latency", {**ORDER, "NCCL_P2P_LEVEL": "SYS"}, ""),
        (node(2, "NODE"), "throughput", ORDER, "two GPUs on AMD"),
        (node(2, "PHB", cpu={"vendor": "GenuineIntel"}), "throughput", {**ORDER, "NCCL_P2P_LEVEL": "PHB"}, ""),
        (node(2, "PHB", cpu=None), "latency", {**ORDER, "NCCL_P2P_LEVEL": "PHB"}, ""),
        (node(gpus=[{"index": index, "mig": "Enabled"} for index in range(8)]), "latency", ORDER, "MIG is enabled"),
        (node(p2p="CNS"), "latency", ORDER, "refused (CNS"),
        (node(p2p="U"), "latency", ORDER, "unknown whether the GPUs can do P2P"),
        (node(p2p=None), "latency", ORDER, "unknown whether the GPUs can do P2P"),
        (node(links=None), "latency", ORDER, "unknown how the GPUs are linked"),
        (node(links="WHAT"), "latency", ORDER, "unknown how the GPUs are linked"),
        (node(1), "latency", ORDER, "One GPU"),
        (node(**HANGING), "conservative", {**ORDER, "NCCL_P2P_DISABLE": "1"}, "NCCL's own choices"),
        (node(**HANGING), "latency", {**ORDER, "NCCL_P2P_DISABLE": "1"}, "P2P is disabled"),
    ],
)  # fmt: skip
def test_topology_and_profile_decide(facts: dict[str, Any], profile: str, expected: dict[str, str], note: str) -> None:
    result = nccl_environment(facts, profile)
    assert values(result) == expected
    assert any(note in text for text in result["notes"]) if note else result["notes"] == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("server-8x-two-sockets", {**ORDER, "NCCL_P2P_DISABLE": "1"}),  # translated IOMMU and ACS redirect
        ("server-8x-switches", {**ORDER, "NCCL_P2P_LEVEL": "SYS", "NCCL_PROTO": "LL"}),
        ("max-q-4x", {**ORDER, "NCCL_P2P_LEVEL": "PHB"}),
        ("workstation-2x", {**ORDER, "NCCL_P2P_LEVEL": "PHB"}),
        ("mixed", ORDER),
        ("mig-on", ORDER),
        ("driver-dead", {}),
        ("gpu-lost", {}),
        ("virtual-machine", {**ORDER, "NCCL_P2P_LEVEL": "PHB"}),
    ],
)
def test_the_facts_of_whole_hosts_are_understood(host: str, expected: dict[str, str], tmp_path: Path) -> None:
    recorded = hosts.recording(host)
    recording.unpack(recorded, tmp_path / "host")
    facts = read_node(Tree(str(tmp_path / "host")), answers_of(recorded["commands"]))
    result = nccl_environment(facts, "latency")
    assert values(result) == expected
    warned = ("server-8x-two-sockets", "mig-on", "driver-dead", "gpu-lost", "virtual-machine")
    assert bool(result["warnings"]) is (host in warned)


def test_a_matrix_that_is_not_square_over_the_gpus_decides_nothing() -> None:
    for links in (square(7, "SYS"), [["X"]] * 8, "SYS", [[1] * 8] * 8):
        facts = {**node(), "links": links}
        assert values(nccl_environment(facts, "latency")) == ORDER


def test_the_reason_for_an_unknown_fact_is_passed_on() -> None:
    facts = node(links=None, reasons={"links": "a row is missing"})
    assert "a row is missing" in nccl_environment(facts, "latency")["notes"][0]


def test_translation_with_unknown_redirect_is_warned_of() -> None:
    facts = node(iommu={"mode": "translated"}, acs={"redirect": None}, reasons={"acs.redirect": "no root"})
    assert "unknown whether ACS redirects (no root)" in nccl_environment(facts)["warnings"][0]
    assert nccl_environment(node(iommu={"mode": None}, acs={"redirect": True}))["warnings"] == []


def test_mig_is_warned_of_and_nothing_is_tuned() -> None:
    facts = node()
    facts["gpus"][3]["mig"] = "Enabled"
    result = nccl_environment(facts, "latency")
    assert values(result) == ORDER and "MIG is enabled" in result["warnings"][0]


@pytest.mark.parametrize(
    ("facts", "says", "warned"),
    [
        ({"gpus": []}, "this node has no GPU", False),
        ({"gpus": None, "reasons": {"gpus": "nvidia-smi is not installed"}}, "unknown (nvidia-smi is not inst", True),
        ({"gpus": None, "reasons": {"driver": "the driver is dead"}}, "unknown (the driver is dead)", True),
    ],
)
def test_a_node_without_gpus_gets_nothing_and_is_told_why(facts: dict[str, Any], says: str, warned: bool) -> None:
    result = nccl_environment(facts, "throughput", {"NCCL_DEBUG": "INFO"})
    assert result["variables"] == [] and result["considered"] == []
    assert says in result["notes"][0] and "Not applied without a GPU: NCCL_DEBUG." in result["notes"][1]
    assert bool(result["warnings"]) is warned
    assert says in result["environment_file"].replace("\n# ", " ")
    assert all(line.startswith("#") for line in result["environment_file"].splitlines())


def test_overrides_replace_add_and_unset() -> None:
    overrides = {"NCCL_P2P_LEVEL": "PHB", "NCCL_DEBUG": "WARN", "NCCL_PROTO": None, "NCCL_MAX_CTAS": 32}
    result = nccl_environment(node(), "latency", overrides)
    assert values(result) == {**ORDER, "NCCL_P2P_LEVEL": "PHB", "NCCL_DEBUG": "WARN", "NCCL_MAX_CTAS": "32"}
    assert "NCCL_PROTO is unset by an override." in result["notes"]


def test_variables_are_sorted_and_each_has_reason_and_evidence() -> None:
    result = nccl_environment(node(), "latency", {"NCCL_ALGO": "Ring"})
    names = [variable["name"] for variable in result["variables"]]
    assert names == sorted(names)
    assert all(variable["reason"] and variable["evidence"] for variable in result["variables"])


def test_disabling_p2p_drops_the_profiles_level_but_not_the_users() -> None:
    result = nccl_environment(node(), "throughput", {"NCCL_P2P_DISABLE": 1})
    assert values(result) == {**ORDER, "NCCL_P2P_DISABLE": "1"}
    with pytest.raises(AnsibleFilterError, match="looks at the level only when P2P is not disabled"):
        nccl_environment(node(), "throughput", {"NCCL_P2P_DISABLE": 1, "NCCL_P2P_LEVEL": "SYS"})
    with pytest.raises(AnsibleFilterError, match="exceeds NCCL_MAX_CTAS"):
        nccl_environment(node(), "throughput", {"NCCL_MIN_CTAS": 32, "NCCL_MAX_CTAS": 8})


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("", "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1 and VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1"),
        ("sglang", "what SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1 turns on"),
        ("vllm", "what VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1 turns on"),
    ],
)
def test_the_engines_own_all_reduce_is_warned_of_whoever_disables_p2p(engine: str, says: str) -> None:
    for facts, overrides in ((node(**HANGING), {}), (node(2), {"NCCL_P2P_DISABLE": 1})):
        warnings = nccl_environment(facts, "conservative", overrides, engine)["warnings"]
        (warning,) = [text for text in warnings if "--disable-custom-all-reduce" in text]
        assert says in warning and "inference_server_extra_arguments" in warning
    for facts, overrides in ((node(1), {"NCCL_P2P_DISABLE": 1}), (node(), {"NCCL_P2P_DISABLE": 0}), (node(), {})):
        assert nccl_environment(facts, "conservative", overrides, engine)["warnings"] == []


def test_equal_limits_are_no_contradiction() -> None:
    limits = {"NCCL_MIN_CTAS": 8, "NCCL_MAX_CTAS": 8}
    assert values(nccl_environment(node(), "conservative", limits))["NCCL_MIN_CTAS"] == "8"


def test_one_gpu_is_warned_of_nothing() -> None:
    facts = node(1, **HANGING)
    facts["gpus"][0]["mig"] = "Enabled"
    result = nccl_environment(facts, "latency")
    assert result["warnings"] == [] and values(result) == ORDER


def test_a_guest_is_warned_of_what_it_cannot_see() -> None:
    (warning,) = nccl_environment(node(links="PHB", virtual_machine=True), "latency")["warnings"]
    assert "does not see the IOMMU" in warning
    for guest in (node(1, virtual_machine=True), node(p2p="CNS", virtual_machine=True), node(virtual_machine=None)):
        assert nccl_environment(guest, "latency")["warnings"] == []


def test_taking_a_safeguard_away_is_warned_of() -> None:
    result = nccl_environment(node(**HANGING), "conservative", {"NCCL_P2P_DISABLE": None})
    assert values(result) == ORDER
    assert any("taken away by an override" in warning for warning in result["warnings"])


@pytest.mark.parametrize(
    ("overrides", "warning"),
    [
        ({"NCCL_MIN_NCHANNELS": 8}, "deprecated, NCCL_MIN_CTAS"),
        ({"NCCL_PROTO": "LL,LL128,Simple"}, "forces it also where it can corrupt data"),
        ({"NCCL_ALGO": "Tree"}, "leaves Ring out"),
        ({"NCCL_ALGO": "^Ring"}, "excludes Ring"),
        ({"CUDA_DEVICE_MAX_CONNECTIONS": 32}, "sglang overwrites CUDA_DEVICE_MAX_CONNECTIONS with 8"),
    ],
)
def test_dangerous_and_useless_values_are_warned_of(overrides: dict[str, Any], warning: str) -> None:
    assert any(warning in text for text in nccl_environment(node(), "conservative", overrides, "sglang")["warnings"])


def test_harmless_values_are_not_warned_of() -> None:
    for overrides in ({"NCCL_PROTO": "^LL128"}, {"NCCL_ALGO": "Ring,Tree"}, {"CUDA_DEVICE_MAX_CONNECTIONS": 8}):
        assert nccl_environment(node(), "conservative", overrides, "sglang")["warnings"] == []
    assert nccl_environment(node(), "conservative", {"CUDA_DEVICE_MAX_CONNECTIONS": 32}, "vllm")["warnings"] == []


def test_what_the_engine_sets_itself_is_noted_until_it_is_set() -> None:
    notes = nccl_environment(node(), "conservative", {}, "sglang")["notes"]
    assert "sglang sets NCCL_CUMEM_ENABLE=0 where it is unset." in notes
    notes = nccl_environment(node(), "conservative", {"NCCL_CUMEM_ENABLE": 1}, "sglang")["notes"]
    assert not any("NCCL_CUMEM_ENABLE" in note for note in notes)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"NCCL_P2P_LEVEL": "NODE"}, "is PHB here"),
        ({"NCCL_P2P_LEVEL": "sys"}, "case-sensitive. Write SYS"),
        ({"NCCL_P2P_LEVEL": 2}, "Write PXB"),
        ({"NCCL_P2P_LEVEL": "9"}, "Write SYS"),
        ({"NCCL_P2P_LEVEL": "FAR"}, "Levels are LOC"),
        ({"NCCL_P2P_DISABLE": "yes"}, "exactly 1"),
        ({"NCCL_P2P_DISABLE": True}, "would be the number 0"),
        ({"NCCL_P2P_DISABLE": 2}, "exactly 1"),
        ({"NCCL_BUFFSIZE": "32M"}, "would read it as 32"),
        ({"NCCL_BUFFSIZE": "010"}, "would read it as 8"),
        ({"NCCL_BUFFSIZE": "true"}, "would read it as 0"),
        ({"NCCL_BUFFSIZE": "0x1g"}, "would read it as 1"),
        ({"NCCL_BUFFSIZE": "-08"}, "would read it as 0"),
        ({"NCCL_MAX_CTAS": 65}, "takes 1 to 64"),
        ({"NCCL_NTHREADS": 100}, "multiple of 32"),
        ({"NCCL_NTHREADS": 1024}, "takes 64 to 512"),
        ({"NCCL_IB_SL": 2**63}, "64 bits"),
        ({"NCCL_GRAPH_FILE": ""}, "Give null to unset"),
        ({"NCCL_GRAPH_FILE": "graph.xml"}, "absolute path"),
        ({"NCCL_DEBUG": " INFO"}, "trims nothing"),
        ({"NCCL_DEBUG": '"INFO"'}, "quotes"),
        ({"NCCL_DEBUG": "LOUD"}, "must be one of VERSION"),
        ({"NCCL_SOCKET_IFNAME": "eth0\n"}, "trims nothing"),
        ({"NCCL_SOCKET_IFNAME": "eth\n0"}, "control characters"),
        ({"NCCL_SOCKET_IFNAME": "eth\u00e9"}, "beyond ASCII"),
        ({"NCCL_SOCKET_IFNAME": "e" * 1024}, "after 1023 bytes"),
        ({"NCCL_SOCKET_IFNAME": ["eth0"]}, "neither text nor"),
        ({"NCCL_PROTO": "LL,FAST"}, "'FAST' is none of LL, LL128, Simple"),
        ({"NCCL_ALGO": "allgater:Ring"}, "no function of NCCL"),
        ({"NCCL_ALGO": "Ring;Tree"}, "needs a function before a colon"),
        ({"nccl_debug": "INFO"}, "Write NCCL_DEBUG"),
        ({"NCCL_DEBUGG": "INFO"}, "no such variable"),
        ({"NCCL_": "1"}, "no such variable"),
        ({"LD_PRELOAD": "/x.so"}, "begin with NCCL_"),
        ({5: "1"}, "no name"),
        ({"CUDA_DEVICE_ORDER": "PCI"}, "must be one of PCI_BUS_ID"),
        ({"CUDA_DEVICE_MAX_CONNECTIONS": 64}, "takes 1 to 32"),
    ],
)
def test_what_nccl_would_ignore_or_misread_is_refused(overrides: dict[Any, Any], says: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        nccl_environment(node(), "conservative", overrides)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "overrides",
    [
        {"NCCL_P2P_LEVEL": "PHB", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_BUFFSIZE": 8388608, "NCCL_IB_GID_INDEX": -1},
        {
            "NCCL_ALGO": "^PAT",
            "NCCL_PROTO": "^LL128;allreduce:LL128",
            "NCCL_SOCKET_IFNAME": "=eth0",
            "NCCL_NTHREADS": 64,
        },
        {"NCCL_GRAPH_FILE": "/etc/nccl graph.xml", "NCCL_DEBUG": "TRACE", "NCCL_BUFFSIZE": "0x100000"},
    ],
)
def test_what_nccl_takes_as_it_is_said_is_accepted(overrides: dict[str, Any]) -> None:
    assert (
        values(nccl_environment(node(), "conservative", overrides)).items()
        >= {name: str(value) for name, value in overrides.items()}.items()
    )


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(AnsibleFilterError) as error:
        nccl_environment(node(), "conservative", {"NCCL_P2P_LEVEL": "NODE", "NCCL_BUFFSIZE": "4M"})
    assert "NODE is no level" in str(error.value) and "read it as 4" in str(error.value)


@pytest.mark.parametrize(
    ("facts", "profile", "overrides", "says"),
    [
        (None, "latency", None, "not what gpu_node_facts returns"),
        ({}, "latency", None, "has no gpus"),
        ({"gpus": "eight"}, "latency", None, "no list of GPUs"),
        ({"gpus": [1]}, "latency", None, "no list of GPUs"),
        (node(), "fast", None, "Profiles are conservative, latency, throughput"),
        (node(), ["latency"], None, "Profiles are"),
        (node(), "latency", ["NCCL_DEBUG"], "not a dictionary"),
    ],
)
def test_input_of_another_shape_is_refused(facts: Any, profile: Any, overrides: Any, says: str) -> None:
    with pytest.raises(AnsibleFilterError, match=says):
        nccl_environment(facts, profile, overrides)


def read_as_nccl_does(text: str) -> dict[str, str]:
    """NCCL's own reading of a conf file: no trimming, a comment only at the first column, the first value wins."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        # fgets stops after 4095 bytes, and what follows is a line of its own.
        for piece in [line[at : at + 4095] for at in range(0, max(len(line), 1), 4095)]:
            if not piece.startswith("#") and "=" in piece:
                name, dummy, value = piece.partition("=")
                found.setdefault(name[:1023], value[:1023])
    return found


def test_the_conf_file_says_to_nccl_what_was_decided() -> None:
    overrides = {"NCCL_GRAPH_FILE": "/etc/nccl/" + "g" * 900, "NCCL_SOCKET_IFNAME": "=eth0"}
    result = nccl_environment(node(), "latency", overrides)
    expected = {name: value for name, value in values(result).items() if name.startswith("NCCL_")}
    assert read_as_nccl_does(result["conf_file"]) == expected


def test_the_environment_file_holds_every_variable_below_its_reason() -> None:
    text = nccl_environment(node(), "latency")["environment_file"]
    assert "\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n" in text and "\nNCCL_P2P_LEVEL=SYS\n" in text
    lines = text.splitlines()
    assert lines[lines.index("NCCL_PROTO=LL") - 1].startswith("# ")
    assert max(map(len, lines)) <= 101


def test_settings_that_were_considered_are_listed_unless_they_are_set() -> None:
    names = {item.name for item in CONSIDERED}
    listed = {item["name"] for item in nccl_environment(node(), "conservative")["considered"]}
    assert listed == names
    result = nccl_environment(node(), "latency", {"NCCL_IB_DISABLE": 1})
    listed = {item["name"] for item in result["considered"]}
    assert listed == names - {"NCCL_PROTO", "NCCL_IB_DISABLE"}


def test_rules_are_data_with_reason_evidence_and_date() -> None:
    for rule in RULES:
        assert rule.reason and rule.evidence and len(rule.date) == 7
        assert set(rule.profiles) <= set(PROFILES)
    assert all(item.reason and item.evidence and len(item.date) == 7 for item in CONSIDERED)


def test_the_filter_is_registered_by_its_name() -> None:
    assert FilterModule().filters() == {"nccl_environment": nccl_environment}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
CELLS = st.sampled_from(["X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "NV18", "OK", "CNS", "U", "", "?"])
MATRIX = st.lists(st.lists(CELLS, min_size=2, max_size=3), min_size=2, max_size=3) | ANYTHING
FACTS = st.fixed_dictionaries(
    {"gpus": st.lists(st.dictionaries(st.just("mig"), ANYTHING), max_size=3) | ANYTHING},
    optional={
        "links": MATRIX,
        "p2p": MATRIX,
        "iommu": st.fixed_dictionaries({"mode": st.sampled_from(["translated", "passthrough", "off", None])})
        | ANYTHING,
        "acs": st.fixed_dictionaries({"redirect": st.booleans() | st.none()}) | ANYTHING,
        "cpu": ANYTHING,
        "reasons": ANYTHING,
    },
)
NAMES = st.sampled_from(sorted("NCCL_" + name for name in KNOWN)) | st.text(max_size=10)
VALUES = st.integers() | st.text(max_size=10) | st.sampled_from(["SYS", "LL", "Ring", "0", "1", "32M"]) | ANYTHING


@settings(max_examples=500, deadline=None)
@given(
    facts=FACTS | ANYTHING,
    profile=st.sampled_from(PROFILES) | ANYTHING,
    overrides=st.dictionaries(NAMES, VALUES, max_size=4) | ANYTHING,
    engine=st.sampled_from(["", "sglang", "vllm"]) | ANYTHING,
)
def test_any_input_gives_a_decision_or_a_refusal(facts: Any, profile: Any, overrides: Any, engine: Any) -> None:
    try:
        result = nccl_environment(facts, profile, overrides, engine)
    except AnsibleFilterError as error:
        assert str(error).startswith("nccl_environment: ")
        return
    expected = {name: value for name, value in values(result).items() if name.startswith("NCCL_")}
    assert read_as_nccl_does(result["conf_file"]) == expected
    assert result == nccl_environment(facts, profile, overrides, engine)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(sorted(KNOWN)), value=st.integers() | st.text(max_size=8))
def test_an_accepted_integer_is_read_by_nccl_as_it_is_written(name: str, value: Any) -> None:
    try:
        result = nccl_environment(node(), "conservative", {"NCCL_" + name: value})
    except AnsibleFilterError:
        return
    written = values(result)["NCCL_" + name]
    assert written == str(value) and written == written.strip() != ""
