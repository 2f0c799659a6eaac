"""Puts a model into an image: a step of the Dockerfile, configured by its build arguments.

Downloads MODEL_NAME (at MODEL_REVISION) and, where it differs, TOKENIZER_NAME under BASE_PATH, and writes
local_model_args.json with the variables that the worker is to start with. HF_TOKEN is needed for gated
models only and is not kept.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError

ARGUMENTS_FILE = os.environ.get("LOCAL_MODEL_ARGS", "/local_model_args.json")

# Other forms of the same weights, and what no engine reads.
NEVER = ["*.onnx", "*.onnx_data", "*.h5", "*.msgpack", "*.tflite", "*.ot", "*.mlmodel", "original/*", "metal/*"]
BESIDE_SAFETENSORS = ["*.bin", "*.pt", "*.pth", "*.gguf"]
TOKENIZER_FILES = ["*token*", "*.model", "*.tiktoken", "vocab*", "merges.txt", "*.jinja", "config.json"]


def given(name):
    """A build argument; an empty one counts as not given."""
    return os.environ.get(name, "").strip() or None


def other_forms(files):
    """Patterns of what the engine would not read of a repository's files."""
    safetensors = [name for name in files if name.endswith(".safetensors")]
    if not safetensors:
        return NEVER
    # Mistral's repositories hold the weights twice. vLLM reads Mistral's own form where there is one.
    forms = ["model", "consolidated"] if os.environ.get("ENGINE", "vllm") == "vllm" else ["consolidated", "model"]
    is_twice = all(any(name.startswith(form) for name in safetensors) for form in forms)
    return NEVER + BESIDE_SAFETENSORS + ([f"{forms[0]}*.safetensors"] if is_twice else [])


def download(repository, revision, base_path, only=None):
    """The folder with the files of a repository."""
    files = HfApi().list_repo_files(repository, revision=revision)
    folder = Path(base_path) / repository.replace("/", "--")
    snapshot_download(
        repository,
        revision=revision,
        local_dir=folder,
        allow_patterns=only,
        ignore_patterns=other_forms(files),
    )
    # Notes for resuming a download, which does not happen here.
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return str(folder)


def bake():
    model = given("MODEL_NAME")
    if model is None:
        sys.exit("MODEL_NAME is empty: give it as a build argument.")
    base_path = given("BASE_PATH") or "/models"
    tokenizer = given("TOKENIZER_NAME")
    arguments = {
        "MODEL_NAME": download(model, given("MODEL_REVISION"), base_path),
        # Callers ask for the model by its name, not by the folder it happens to lie in.
        "OPENAI_SERVED_MODEL_NAME_OVERRIDE": model,
    }
    if tokenizer not in (None, model):
        arguments["TOKENIZER_NAME"] = download(
            tokenizer, given("TOKENIZER_REVISION"), base_path, TOKENIZER_FILES
        )
    if given("QUANTIZATION"):
        arguments["QUANTIZATION"] = given("QUANTIZATION")
    Path(ARGUMENTS_FILE).write_text(json.dumps(arguments, indent=2) + "\n")
    print(json.dumps(arguments, indent=2))


if __name__ == "__main__":
    try:
        bake()
    except HfHubHTTPError as error:
        sys.exit(f"{error}\nA gated or private model needs a token: --secret id=HF_TOKEN,env=HF_TOKEN")
