# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes to recap: a fleet as in the guide's picture, and nodes that want to break the page.

Hosts and texts of the fleet are made up. Its speeds follow operators' reports for Kimi-K2.5 class models on
8 RTX PRO 6000 (117 against 87 and 1150 against 857 tokens/s with a good draft; 54.8 against 90.0 with a bad one; 2026).
"""

from __future__ import annotations

from typing import Any

SITE = "/opt/specdecode/ml-env/lib/python3.12/site-packages/sglang/srt"
PROMPTS = ("short-prose", "short-code", "code-sql", "code-parser", "prose-paper", "reasoning-train", "chat-router")
METHOD = {
    "prompts": ["short", "code", "prose", "reasoning", "chat"],
    "max_tokens": 128,
    "streams": [1, 32],
    "repetitions": 3,
    "ignore_eos": False,
}


def spread(values: list[float], **more: Any) -> dict[str, Any]:
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    return {"median": ordered[len(ordered) // 2], "low": low, "high": high, "spread": high - low, **more}


def speeds(alone: list[float], together: list[float]) -> list[dict[str, Any]]:
    return [
        {**spread(values), "streams": streams, "values": values} for streams, values in ((1, alone), (32, together))
    ]


def delays(alone: float, together: float) -> list[dict[str, Any]]:
    return [
        spread([0.94 * delay, delay, 1.1 * delay], streams=streams) for streams, delay in ((1, alone), (32, together))
    ]


def record(alone: list[float], together: list[float], positions: list[float] | None, **more: Any) -> dict[str, Any]:
    """A record of measurements.jsonl; with `positions` it speculates."""
    each = 1000 / alone[1]
    return {
        "time": "2026-11-28T14:02:11Z",
        "instance": "main" if positions else "main-baseline",
        "digest": "63f8cc1b18eb74fefc3f257f73f2ef820a394c2ff14990dc155dc649fa5a47a8" if positions else "8ba32102a208",
        "engine": "sglang",
        "method": METHOD,
        "tokens_per_second": speeds(alone, together),
        "time_to_first_token": delays(0.211 if positions else 0.208, 1.94),
        "inter_token_time": delays(each / 1000, 32 / together[1]),
        "by_prompt": [
            {
                "prompt": name,
                "kind": name.split("-", maxsplit=1)[0],
                "tokens_per_second": spread(by_prompt(alone, index, positions)),
            }
            for index, name in enumerate(PROMPTS)
        ],
        "speculation": "on" if positions else "off",
        "acceptance_source": "/generate" if positions else "",
        "acceptance_reason": "" if positions else "the engine does not speculate",
        "accept_length": round(1 + sum(positions), 2) if positions else None,
        "acceptance_rate": round(sum(positions) / len(positions), 4) if positions else None,
        "acceptance_per_position": positions,
        "texts": [{"prompt": name, "sha256": f"{index:064x}", "text": "..."} for index, name in enumerate(PROMPTS)],
        "inconsistent": [],
        "not_applicable": [],
        "errors": [],
        "errors_total": 0,
        "complete": True,
        "disturbed": False,
        "engine_version": "0.5.23",
        **more,
    }


def by_prompt(alone: list[float], index: int, positions: list[float] | None) -> list[float]:
    """Code is accepted more often than prose."""
    factor = (0.94, 1.09, 1.18, 1.14, 0.88, 0.97, 0.92)[index] if positions else 1.0
    return [round(value * factor, 1) for value in alone]


def deployment(decision: str, reasons: list[str], **more: Any) -> dict[str, Any]:
    return {
        "id": "20261128T135541Z-63f8cc1b",
        "time": "2026-11-28T14:03:02Z",
        "instance": "main",
        "engine": "sglang",
        "release": "0.5.23",
        "digest": "63f8cc1b18eb74fefc3f257f73f2ef820a394c2ff14990dc155dc649fa5a47a8",
        "decision": decision,
        "reasons": reasons,
        "model": "/srv/models/Kimi-K2.5",
        "draft": "/srv/models/Kimi-K2.5-eagle3",
        "speculative": {"algorithm": "EAGLE3", "num_steps": 3, "topk": 1, "num_draft_tokens": 4},
        **more,
    }


PATCHES: list[dict[str, Any]] = [
    {
        "id": "kimi-vl-eagle3-delegates",
        "status": "applied",
        "reason": "sglang 0.5.23 needs it",
        "files": [{"path": f"{SITE}/models/kimi_vl.py", "before": "1f0c" * 16, "after": "9be2" * 16}],
        "limits": [],
        "invalidates": [],
    },
    {
        "id": "sm120-extend-attention",
        "status": "upstream",
        "reason": "sglang 0.5.23 has it (recognised by the branch for compute capability 12)",
        "files": [],
        "limits": [],
        "invalidates": [],
    },
    {
        "id": "cuda-graph-aux-layers",
        "status": "applied",
        "reason": "sglang 0.5.23 needs it",
        "files": [{"path": f"{SITE}/model_executor/cuda_graph_runner.py", "before": "a1" * 32, "after": "b2" * 32}],
        "limits": ["graphs of more than 64 requests are still captured without the draft's layers"],
        "invalidates": ["triton"],
    },
]

PURGED = [
    {
        "path": f"{SITE}/{folder}/__pycache__/{name}.cpython-312.pyc",
        "source": f"{SITE}/{folder}/{name}.py",
        "reason": reason,
    }
    for folder, name, reason in (
        ("models", "kimi_vl", "code_differs"),
        ("model_executor", "cuda_graph_runner", "size_differs"),
        ("speculative", "eagle_worker", "code_differs"),
    )
]

NCCL = {
    "variables": [
        {
            "name": "CUDA_DEVICE_ORDER",
            "value": "PCI_BUS_ID",
            "reason": "CUDA and nvidia-smi number the GPUs differently; so that a number means the same card in both",
            "evidence": "CUDA C++ programming guide, environment variables (2026-06)",
        },
        {
            "name": "NCCL_P2P_LEVEL",
            "value": "SYS",
            "reason": "GPUs are spread over two sockets; by default NCCL would send those pairs through shared memory",
            "evidence": "4 GPUs on two AMD Turin: busbw 30.3 to 39.3 GB/s, decode +3.6 % (2026-05)",
        },
        {
            "name": "NCCL_PROTO",
            "value": "LL",
            "reason": "one stream's messages are small, and NCCL does not choose LL itself between AMD sockets",
            "evidence": "8 GPUs on two AMD Turin: 65 to 68 tok/s against about 40 for one stream (2026-05)",
        },
    ],
    "warnings": [],
    "notes": ["A variable of the process's environment wins over every file of NCCL."],
}

FINDINGS: list[dict[str, Any]] = [
    {
        "id": "power_limit",
        "severity": "warning",
        "found": "GPU 3 is limited to 300 W, the others to 600 W",
        "rule": "The slowest GPU of a tensor-parallel group sets the pace of all",
        "remedy": "nvidia-smi --id=3 --power-limit=600",
        "evidence": "operators' reports on 8x RTX PRO 6000, 2026-05",
        "accepted": False,
    },
    {
        "id": "hugepages",
        "severity": "info",
        "found": "transparent huge pages: madvise",
        "rule": "",
        "remedy": "",
        "evidence": "",
        "accepted": False,
    },
    {
        "id": "clock_skew",
        "severity": "warning",
        "found": "the clock is 41 s ahead of the controller's",
        "rule": "Records of nodes are compared by their time",
        "remedy": "systemctl restart systemd-timesyncd",
        "evidence": "own rule, 2026-11",
        "accepted": True,
    },
]


def past(day: str, decision: str, length: float | None, with_: float | None, without: float | None) -> dict[str, Any]:
    """An earlier deployment, as deployment_record has it."""
    return {
        "time": f"2026-{day}T09:30:00Z",
        "about": {
            "decision": decision,
            "accept_length": length,
            "tokens_per_second_with": [] if with_ is None else [{"streams": 1, "median": with_}],
            "tokens_per_second_without": [] if without is None else [{"streams": 1, "median": without}],
        },
    }


HISTORY = [
    past("09-03", "fallback", 1.42, 54.8, 90.0),
    past("09-17", "fail", 1.0, 51.2, 89.4),
    past("10-02", "keep", 2.41, 101.9, 88.7),
    past("10-20", "keep", 2.52, 104.8, 86.9),
    past("11-05", "fail", None, None, 87.3),
    past("11-12", "keep", 2.79, 113.6, 87.2),
]


def kept() -> dict[str, Any]:
    return {
        "host": "gpu-a01.example.com",
        "deployment": deployment(
            "keep",
            [
                "accept length 2.84 (at least 2.0 is asked)",
                "one stream is 1.35 times as fast (at least 1.05 is asked)",
                "all texts equal those without speculation",
            ],
        ),
        "with": record([116.4, 117.2, 118.0], [1138.0, 1150.4, 1162.7], [0.796, 0.605, 0.439]),
        "without": record([86.6, 87.0, 87.3], [851.2, 857.1, 860.3], None),
        "patches": PATCHES,
        "purged": PURGED,
        "nccl": NCCL,
        "findings": FINDINGS,
        "history": HISTORY,
    }


def fallen_back() -> dict[str, Any]:
    reasons = [
        "one stream is 0.61 times as fast with speculation (at least 1.05 is asked)",
        "accept length 1.42 is far below the 2.8 that the draft declares: it was trained on the boundaries 0, 3, 31, "
        "and is fed 3, 31, 59. SGLang 0.5.13 changed the meaning of the ids in its configuration",
    ]
    texts = [{"prompt": name, "sha256": f"{index + (index == 4):064x}"} for index, name in enumerate(PROMPTS)]
    return {
        **kept(),
        "host": "gpu-a02.example.com",
        "deployment": deployment("fallback", reasons, id="20261128T135612Z-0d41"),
        "with": record([52.9, 54.8, 55.9], [611.0, 640.2, 655.8], [0.31, 0.09, 0.02], texts=texts, disturbed=True),
        "without": record([88.9, 90.0, 90.6], [842.0, 861.0, 866.4], None),
        "purged": [],
        "nccl": {"variables": [], "warnings": ["NCCL_BUFFSIZE is set in the unit and has no effect"], "notes": []},
        "findings": [],
        "history": HISTORY[:1],
    }


def failed_early() -> dict[str, Any]:
    """A node whose preflight stopped the deployment."""
    iommu = {
        "id": "iommu_hang",
        "severity": "error",
        "found": "the IOMMU translates and 4 bridges redirect peer traffic to it (ACS)",
        "rule": "The first all-reduce with P2P hangs",
        "remedy": "add iommu=pt to the kernel's command line and restart, or accept iommu_hang",
        "evidence": "operators' reports on 8x RTX PRO 6000, 2026-09",
        "accepted": False,
    }
    failed = deployment(
        "fail", ["the preflight refused the node before anything was changed"], engine=None, release=None
    )
    return {
        "host": "gpu-a03.example.com",
        "deployment": failed,
        "findings": [iommu, *FINDINGS],
        "with": None,
        "patches": None,
    }


def silent() -> dict[str, Any]:
    return {"host": "gpu-a04.example.com"}


def fleet() -> list[dict[str, Any]]:
    return [kept(), fallen_back(), failed_early(), silent()]


EVIL = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}{% raw %}\x1b[31m\u202e\u2028"
LONG = "x" * 700


def poisoned(value: Any, text: str = EVIL) -> Any:
    """The same value, with every text replaced. Keys stay, as do words that the recap understands."""
    if isinstance(value, dict):
        return {key: poisoned(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text) for item in value]
    kept_words = ("keep", "fallback", "fail", "error", "warning", "info", "on", "off")
    return text if isinstance(value, str) and value not in kept_words else value


def hostile() -> list[dict[str, Any]]:
    """Every text is an attack on the page, or too long for it."""
    return [poisoned(kept()), poisoned(fallen_back(), LONG), poisoned(failed_early(), "\u6f22\u5b57 " * 40), odd()]


def odd() -> dict[str, Any]:
    """Nothing is of the kind that is expected."""
    return {
        "host": "odd",
        "deployment": {"decision": "perhaps", "reasons": "none", "speculative": 3, "time": 5},
        "with": {
            "tokens_per_second": [{"streams": 0, "median": 1}, {"streams": 1, "median": float("nan")}, None, 3],
            "accept_length": float("inf"),
            "acceptance_per_position": [0.5, 2.0],
            "texts": {"a": 1},
        },
        "without": [],
        "patches": [{"status": "applied"}, "patch"],
        "purged": "all",
        "nccl": {"variables": {}, "warnings": [1]},
        "findings": [{"severity": "error"}],
        "history": [{"time": None, "about": {"decision": 3, "tokens_per_second_with": -1}}],
    }


def crowded() -> dict[str, Any]:
    """More of everything than the page shows."""
    return {
        **kept(),
        "host": "gpu-with-a-rather-long-name-in-rack-17-of-the-second-hall.frankfurt.example.com",
        "with": record(
            [116.4, 117.2, 118.0], [12138.0, 12150.4, 12162.7], [1.0, *(0.9 - index / 20 for index in range(17))]
        ),
        "purged": PURGED * 40,
        "history": [
            past(f"{1 + index // 28:02}-{1 + index % 28:02}", "keep", 2.4, 100.0 + index, 87.0) for index in range(80)
        ],
    }
