# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that NCCL reads, and which values it takes for what they say.

NCCL is silent about nearly everything that it does not understand: a number goes through strtoll with base 0 (`yes`
is 0, `32M` is 32, `010` is 8), an unknown level is no level, an unknown name is nobody's. So every name and value is
checked here. The names are those of NCCL 2.30 (source of 2026-06); older releases lack some of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

SOURCE = "NCCL 2.30, source of 2026-06"
PREFIX = "NCCL_"
MAX_BYTES = 1023  # of a name and of a value in a conf file; longer ones are cut

# Read as integers, without their prefix.
_INTEGERS = """
ALLGATHERV_ENABLE ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CGA_CLUSTER_SIZE CHECK_POINTERS CHUNK_SIZE COLLNET_ENABLE
COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONNECT_ROUND_MAX_PEERS
CROSS_NIC CUMEM_ENABLE CUMEM_HOST_ENABLE DEV_API_JIT DISABLE_MEM_MANAGER DMABUF_ENABLE ELASTIC_BUFFER_REGISTER
ENABLE_VERSION_CHECK GDAKI_USE_RELIABLE_DB GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE
GDRCOPY_SYNC_ENABLE GDR_FLUSH_DISABLE GIN_ENABLE GIN_ERROR_QUERY_SEC GIN_GDAKI_MAX_DEST_RD_ATOMIC
GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_TC GIN_NCONNECTIONS GIN_PLUGIN_REF_COUNT
GIN_PROXY_QUEUE_SIZE GIN_TYPE GRAPH_DUMP_FILE_RANK GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER
GRAPH_STREAM_ORDERING GROUP_CUDA_STREAM IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD IB_DATA_DIRECT IB_DEVICE_PCI_ORDER
IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GID_INDEX IB_MERGE_NICS IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT
IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY IB_PREPOST_RECEIVE_WORK_REQUESTS
IB_QPS_PER_CONNECTION IB_QUERY_PORT_SPEED IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER
IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY IB_RESILIENCY_PORT_RECOVERY
IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX
IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM
IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_TC IB_TIMEOUT
IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_COLLNET_MISMATCH IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P IGNORE_NET_MISMATCH
IPC_USE_ABSTRACT_SOCKET L1_SHARED_MEMORY_CARVEOUT LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER
LL128_BUFFSIZE LL128_C2C LL128_NTHREADS LL_BUFFSIZE LOCAL_REGISTER LSA_TEAM_SIZE MAX_CTAS MAX_NCHANNELS MAX_NRINGS
MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MLOPART_RDMA_ENABLE
MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID
MULTI_RANK_GPU_ENABLE MULTI_SEGMENT_REGISTER NCHANNELS_PER_NET_PEER NET_DISABLE_INTRA NET_FORCE_FLUSH NET_GDR_C2C
NET_GDR_MLOPART NET_GDR_READ NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_PLUGIN_REF_COUNT NET_SHARED_BUFFERS
NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NUM_RMA_CTX NVB_DISABLE NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE
NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE P2P_DIRECT_DISABLE
P2P_EPOCH_ENABLE P2P_LL_THRESHOLD P2P_MAX_PEERS P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
P2P_PER_CHANNEL_NET_BW P2P_PXN_LEVEL P2P_READ_ENABLE P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY PAT_ENABLE
PROGRESS_APPENDOP_FREQ PROXY_APPEND_BATCH_SIZE PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ENABLE RAS_TIMEOUT_FACTOR
REPORT_CONNECT_PROGRESS RMA_DISABLE RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE RUNTIME_CONNECT
SET_CPU_STACK_SIZE SET_STACK_SIZE SHADOW_MEMPOOL_MAX_SIZE SHM_DISABLE SHM_LOCALITY SINGLE_PROC_MEM_REG_ENABLE
SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT
SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CE_THRESHOLD SYM_CTAS SYM_GIN_KERNELS_ENABLE SYM_NOWIN_ENABLE
SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE TOPO_DUMP_FILE_RANK TOPO_SPLIT_MLOPART
UID_STAGGER_RATE UID_STAGGER_THRESHOLD UNPACK_DOUBLE_NCHANNELS WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES
"""
# Read as text that only the one who sets it can judge.
_TEXTS = """
CHECK_MODE COMM_ID CONF_FILE CTA_POLICY DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS
ENV_PLUGIN GIN_PLUGIN GRAPH_DUMP_FILE GRAPH_FILE HOSTID IBVERBS_LIB IB_ADDR_FAMILY IB_ADDR_RANGE IB_HCA NET
NETDEVS_POLICY NET_FORCE_MERGE NET_MERGE_LEVEL NET_MERGE_POLICY NET_PLUGIN NO_CACHE OOB_NET_IFNAME PROFILER_PLUGIN
PROXY_CPUSET RAS_ADDR RMA_PLUGIN SOCKET_FAMILY SOCKET_IFNAME SOCKET_MAGIC SYM_KERNEL THREAD_THRESHOLDS
TOPO_DUMP_FILE TOPO_FILE TUNER_PLUGIN
"""
INTEGERS = frozenset(_INTEGERS.split())
TEXTS = frozenset(_TEXTS.split())
FILES = frozenset(("CONF_FILE", "GRAPH_FILE", "TOPO_FILE"))
SWITCHES = frozenset(("P2P_DISABLE", "SHM_DISABLE", "IB_DISABLE", "P2P_DIRECT_DISABLE", "NVB_DISABLE", "PXN_DISABLE"))
LEVEL_NAMES = frozenset(("P2P_LEVEL", "NET_GDR_LEVEL"))
LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")
CHOICES = {
    "DEBUG": ("VERSION", "WARN", "INFO", "ABORT", "TRACE"),
    "LAUNCH_MODE": ("GROUP", "PARALLEL"),
    "WARN_ENABLE_DEBUG_INFO": ("0", "1"),
    "SET_THREAD_NAME": ("0", "1"),
    "PARAM_DUMP_ALL": ("0", "1"),
}
ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS = ("LL", "LL128", "Simple")
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
# Limits beyond which NCCL silently takes another number.
LIMITS = {
    "MIN_CTAS": (1, 64),
    "MAX_CTAS": (1, 64),
    "MIN_NCHANNELS": (1, 64),
    "MAX_NCHANNELS": (1, 64),
    "NTHREADS": (64, 512),
    "BUFFSIZE": (4096, 1 << 30),
}
DEPRECATED = {
    "MIN_NCHANNELS": "MIN_CTAS",
    "MAX_NCHANNELS": "MAX_CTAS",
    "MIN_NRINGS": "MIN_CTAS",
    "MAX_NRINGS": "MAX_CTAS",
}
# Variables of CUDA that belong to the same decision.
CUDA = {"CUDA_DEVICE_ORDER": ("PCI_BUS_ID", "FASTEST_FIRST")}
CUDA_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"

KNOWN = INTEGERS | TEXTS | SWITCHES | LEVEL_NAMES | frozenset(CHOICES) | {"ALGO", "PROTO"}

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+")


def problem_of_name(name: object) -> str:
    """Why nothing would read a variable of this name, or ''."""
    if not isinstance(name, str) or not name:
        return "it is no name"
    if name in CUDA or name == CUDA_CONNECTIONS:
        return ""
    if not name.startswith(PREFIX):
        upper = name.strip().upper()
        hint = f" Write {upper}." if upper.startswith(PREFIX) and is_known(upper) else ""
        return f"NCCL reads only names that begin with {PREFIX}, in capitals.{hint}"
    return "" if is_known(name) else f"NCCL has no such variable ({SOURCE}) and would ignore it."


def is_known(name: str) -> bool:
    """Whether NCCL reads a variable of this name."""
    return name.startswith(PREFIX) and name[len(PREFIX) :] in KNOWN


def problem_of_value(name: str, value: object) -> str:
    """Why NCCL would not take this value of a known variable for what it says, or ''."""
    if isinstance(value, bool):
        return f"{value} would be the number 0 for NCCL. Write 1 or 0."
    if not isinstance(value, (str, int)):
        return "it is neither text nor a whole number."
    text = str(value)
    problem = _problem_of_text(text)
    if problem:
        return problem
    if name in CUDA:
        return _problem_of_choice(text, CUDA[name])
    if name == CUDA_CONNECTIONS:
        return _problem_of_integer(text, (1, 32))
    return _check_of(name[len(PREFIX) :])(text)


def _check_of(bare: str) -> Callable[[str], str]:
    """The check of a variable's values, by its name without prefix; integers are the rule, the others exceptions."""
    special: dict[str, Callable[[str], str]] = {
        **dict.fromkeys(LEVEL_NAMES, _problem_of_level),
        **{name: partial(_problem_of_choice, known=known) for name, known in CHOICES.items()},
        **dict.fromkeys(SWITCHES, _problem_of_switch),
        **{name: lambda _text: "" for name in TEXTS},
        **dict.fromkeys(FILES, _problem_of_file),
        "ALGO": partial(_problem_of_list, tokens=ALGORITHMS),
        "PROTO": partial(_problem_of_list, tokens=PROTOCOLS),
        "NTHREADS": _problem_of_threads,
    }
    return special.get(bare, partial(_problem_of_integer, limits=LIMITS.get(bare)))


def _problem_of_choice(text: str, known: tuple[str, ...]) -> str:
    return "" if text in known else f"it must be one of {', '.join(known)}."


def _problem_of_switch(text: str) -> str:
    return "" if text in ("0", "1") else "NCCL acts on exactly 1; write 1 or 0."


def _problem_of_file(text: str) -> str:
    return "" if text.startswith("/") else "name the file by its absolute path."


def _problem_of_threads(text: str) -> str:
    wrong = "NCCL wants a multiple of 32 and silently takes another number."
    return _problem_of_integer(text, LIMITS["NTHREADS"]) or ("" if int(text, 0) % 32 == 0 else wrong)


def _problem_of_text(text: str) -> str:
    if not text:
        return "an empty value is not the same as an unset variable. Give null to unset it."
    if text.strip() != text:
        return "NCCL trims nothing, the blanks would belong to the value. Remove them."
    if any(quote in text for quote in "\"'\\"):
        return "quotes and backslashes would belong to the value, or be lost in a unit's environment file. Remove them."
    if not text.isprintable() or not text.isascii():
        return "control characters and letters beyond ASCII cannot be carried. Remove them."
    if len(text) > MAX_BYTES:
        return f"NCCL cuts values in its conf file after {MAX_BYTES} bytes."
    return ""


def _problem_of_integer(text: str, limits: tuple[int, int] | None) -> str:
    if not _INTEGER.fullmatch(text):
        return f"NCCL would read it as {_strtoll(text)}. Write a whole decimal number without leading zeros or a unit."
    number = int(text, 0)
    if not -(2**63) <= number < 2**63:
        return "it does not fit 64 bits, and NCCL would take its default."
    if limits and not limits[0] <= number <= limits[1]:
        return f"NCCL takes {limits[0]} to {limits[1]} and silently another number than this."
    return ""


def _strtoll(text: str) -> int:
    """What strtoll(text, NULL, 0) gives: the longest prefix that is a number, octal after a leading zero."""
    match = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    if not match:
        return 0
    digits = match.group(2)
    octal = digits.startswith("0") and digits[1:2] not in ("x", "X")
    number = int(digits, 8) if octal else int(digits, 0)
    return -number if match.group(1) == "-" else number


def _problem_of_level(text: str) -> str:
    if text in LEVELS:
        return ""
    if text == "NODE":
        return "NODE is no level of NCCL, which ignores it without a word. What nvidia-smi calls NODE is PHB here."
    if text.upper() in LEVELS:
        return f"levels are case-sensitive. Write {text.upper()}."
    if text.isdigit():
        number = int(text[:2])
        named = OLD_LEVELS[min(number, len(OLD_LEVELS) - 1)]
        return f"numbers are old levels that many guides get wrong (1 PIX, 2 PXB, 3 PHB, 4 SYS). Write {named}."
    return f"NCCL ignores it without a word. Levels are {', '.join(LEVELS)}."


def _problem_of_list(text: str, tokens: tuple[str, ...]) -> str:
    """A list such as `Ring,Tree`, `^PAT` or `^LL128;allreduce:LL`; NCCL fails at an unknown token."""
    known = {token.lower() for token in tokens}
    functions = {function.lower() for function in FUNCTIONS}
    for index, entry in enumerate(text.split(";")):
        prefix, colon, names = entry.rpartition(":")
        if colon and prefix.lower() not in functions:
            return f"{prefix} is no function of NCCL ({', '.join(FUNCTIONS)}), which would fail."
        if not colon and index:
            return "every entry but the first needs a function before a colon, or NCCL fails."
        for token in names.removeprefix("^").split(","):
            if token.lower() not in known:
                return f"{token!r} is none of {', '.join(tokens)}, and NCCL would fail."
    return ""
