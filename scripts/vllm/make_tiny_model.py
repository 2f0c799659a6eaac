"""Writes a model directory that vLLM can serve with `--load-format dummy`: a two-layer Llama
without weights and a 512-entry byte-level tokenizer. Its answers are noise; its behaviour is real.

Usage: make_tiny_model.py DIRECTORY
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

BOS, PAD, EOS = "<s>", "<pad>", "</s>"
VOCABULARY = 512

# Text to train the tokenizer on: enough everyday words for a few hundred merges.
CORPUS = [
    "A worker asks the queue for a job, runs it on the engine and sends the answer back.",
    "The quick brown fox jumps over the lazy dog while seven wizards quietly vex the king.",
    "Count with me: one two three four five six seven eight nine ten eleven twelve.",
    "Tell me a story about a small house by the sea, and say hello to everyone there.",
    "What is the weather in the city today? It is sunny, with a little wind from the north.",
]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['role'] }}: {{ message['content'] }}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, PAD, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return tokenizer


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "vocab_size": tokenizer.get_vocab_size(),
            "max_position_embeddings": 131072,
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
            "tie_word_embeddings": True,
            "rms_norm_eps": 1e-5,
            "hidden_act": "silu",
            "torch_dtype": "bfloat16",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS,
            "pad_token": PAD,
            "eos_token": EOS,
            "chat_template": CHAT_TEMPLATE,
        },
        "generation_config.json": {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2},
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
