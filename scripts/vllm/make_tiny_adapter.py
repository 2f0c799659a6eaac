"""Writes a LoRA adapter for the model of make_tiny_model.py, with random weights large enough to change its answers.

Usage: make_tiny_adapter.py DIRECTORY RANK
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

HIDDEN, LAYERS = 64, 2
TARGETS = ["q_proj", "v_proj", "o_proj"]


def write(directory: Path, rank: int) -> None:
    directory.mkdir(parents=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": TARGETS,
    }
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    random = torch.Generator().manual_seed(sum(directory.name.encode()))
    weights = {}
    for layer in range(LAYERS):
        for target in TARGETS:
            name = f"base_model.model.model.layers.{layer}.self_attn.{target}"
            weights[f"{name}.lora_A.weight"] = torch.randn(rank, HIDDEN, generator=random)
            weights[f"{name}.lora_B.weight"] = torch.randn(HIDDEN, rank, generator=random)
    save_file(weights, directory / "adapter_model.safetensors")


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
