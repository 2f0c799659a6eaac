"""Writes a model directory that vLLM can serve with `--load-format dummy`: a two-layer Llama
without weights and a 512-entry byte-level tokenizer. Its answers are noise; its behaviour is real.
With `--vision` it is an Idefics3, which looks at images too: of vLLM's kinds one that needs no torchvision. It has
random weights, since those of `--load-format dummy` are so small that no image changes what it says.

Usage: make_tiny_model.py DIRECTORY [--vision]
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

BOS, PAD, EOS = "<s>", "<pad>", "</s>"
# What an image is in a prompt: IMAGE as many times as the model makes tokens of it, between the others.
IMAGE = "<image>"
IMAGE_TOKENS = [IMAGE, "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
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

LANGUAGE_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 131072,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": True,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
}

# Images of 64 by 64, in 16 patches, of which four make a token.
IMAGE_PIXELS, PATCH_PIXELS, PATCHES_OF_A_SIDE = 64, 16, 2
VISION_MODEL = {
    "model_type": "idefics3_vision",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": IMAGE_PIXELS,
    "patch_size": PATCH_PIXELS,
}


def train_tokenizer(special_tokens: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special_tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return tokenizer


def vision_config(vocabulary: int, image_token: int) -> dict:
    return {
        "architectures": ["Idefics3ForConditionalGeneration"],
        "model_type": "idefics3",
        "text_config": {**LANGUAGE_MODEL, "vocab_size": vocabulary},
        "vision_config": VISION_MODEL,
        "image_token_id": image_token,
        "scale_factor": PATCHES_OF_A_SIDE,
        "pad_token_id": 1,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }


def image_processing() -> dict[str, dict]:
    return {
        "preprocessor_config.json": {
            "image_processor_type": "Idefics3ImageProcessor",
            "processor_class": "Idefics3Processor",
            "size": {"longest_edge": IMAGE_PIXELS},
            "max_image_size": {"longest_edge": IMAGE_PIXELS},
            "do_image_splitting": True,
        },
        "processor_config.json": {
            "processor_class": "Idefics3Processor",
            "image_seq_len": (IMAGE_PIXELS // PATCH_PIXELS // PATCHES_OF_A_SIDE) ** 2,
        },
    }


def write(directory: Path, sees: bool) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([BOS, PAD, EOS, *(IMAGE_TOKENS if sees else [])])
    tokenizer.save(str(directory / "tokenizer.json"))
    vocabulary = tokenizer.get_vocab_size()
    config = (
        vision_config(vocabulary, tokenizer.token_to_id(IMAGE))
        if sees
        else {**LANGUAGE_MODEL, "vocab_size": vocabulary}
    )
    files = {
        "config.json": config,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS,
            "pad_token": PAD,
            "eos_token": EOS,
            "chat_template": CHAT_TEMPLATE,
        },
        "generation_config.json": {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2},
        **(image_processing() if sees else {}),
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")
    if sees:
        from tiny_weights import write_weights
        from transformers import Idefics3ForConditionalGeneration

        write_weights(directory, Idefics3ForConditionalGeneration)
        (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]), "--vision" in sys.argv[2:])
