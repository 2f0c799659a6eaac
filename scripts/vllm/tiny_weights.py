"""Random weights for the tiny models whose answers have to depend on what they are asked."""

from pathlib import Path

import torch
from transformers import AutoConfig, PreTrainedModel


def write_weights(directory: Path, kind: type[PreTrainedModel]) -> None:
    """Writes weights for the model that the configuration in the directory describes, the same ones each time."""
    model = kind(AutoConfig.from_pretrained(directory))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.2, generator=random)
    model.to(torch.bfloat16).save_pretrained(directory)
