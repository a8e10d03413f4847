# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang as far as it takes a key: from the file that --config names. Then it serves as the stand-in for vLLM does."""

from __future__ import annotations

import argparse
import json
import os
import sys

parser = argparse.ArgumentParser()
for name in ("model-path", "served-model-name", "host", "port", "config"):
    parser.add_argument("--" + name, default="")
settings, _others = parser.parse_known_args()
if settings.config:
    with open(settings.config, encoding="utf-8") as file:
        os.environ["VLLM_API_KEY"] = json.load(file)["api-key"]
vllm = os.path.join(os.path.dirname(sys.executable), "vllm")
name = settings.served_model_name or settings.model_path
os.execv(
    vllm,
    [vllm, "serve", settings.model_path, "--served-model-name", name, "--host", settings.host, "--port", settings.port],
)
