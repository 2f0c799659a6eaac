"""An engine with random weights: `transformers serve`, unmodified, started by the command line of `vllm serve`.

    engine.py cuda|cpu make CACHE                  writes the model into a cache of Hugging Face's form: 2 GB, or 1 MB
    engine.py cuda|cpu serve NAME --host H --port P [...]
"""

import argparse
import os
import sys
from pathlib import Path

NAME = "worker-vllm/random"
# For a GPU with enough layers to have something to do, and few enough to be written in seconds.
SIZES = {
    "cuda": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 16},
    "cpu": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2},
}
# Of vLLM's flags those that the worker's variables set here; serve passes them over.
HELP = "options: --host HOST --port PORT --served-model-name NAME --max-num-seqs COUNT"


def make(device: str, cache: Path) -> None:
    import torch
    from make_tiny_model import write
    from transformers import AutoConfig, AutoModelForCausalLM

    repository = cache / f"models--{NAME.replace('/', '--')}"
    snapshot = repository / "snapshots" / "1"
    write(snapshot, sees=False)
    size = SIZES[device]
    heads = size["num_attention_heads"]
    more = {"num_key_value_heads": heads, "head_dim": size["hidden_size"] // heads}
    config = AutoConfig.from_pretrained(snapshot, **size, **more)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(snapshot.name)


def serve(device: str, arguments: list[str]) -> None:
    if any(argument.startswith("--help") for argument in arguments):
        print(HELP)
        return
    parser = argparse.ArgumentParser()
    for name in ["name", "--host", "--port"]:
        parser.add_argument(name)
    given, _ = parser.parse_known_args(arguments)
    # Requests of one moment are one batch there, as in vLLM.
    batching = ["--continuous-batching"] if device == "cuda" else []
    options = ["--host", given.host, "--port", given.port, "--device", device, *batching]
    os.execv(sys.executable, [sys.executable, "-m", "transformers.cli.transformers", "serve", given.name, *options])


if __name__ == "__main__":
    device, command, *rest = sys.argv[1:]
    if command == "make":
        make(device, Path(rest[0]))
    else:
        serve(device, rest)
