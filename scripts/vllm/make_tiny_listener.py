"""Writes a model directory of a two-layer Qwen2-Audio with random weights: a chat model that hears clips.
Its answers are noise, another noise for other audio; its behaviour is real.

Usage: make_tiny_listener.py DIRECTORY
"""

import json
import sys
from pathlib import Path

from make_tiny_model import BOS, CHAT_TEMPLATE, EOS, PAD, train_tokenizer
from safetensors.torch import load_file, save_file
from tiny_weights import write_weights
from transformers import Qwen2AudioForConditionalGeneration

# What a clip is in a prompt: AUDIO as many times as the model makes tokens of it, between the others.
AUDIO = "<|AUDIO|>"
AUDIO_TOKENS = [AUDIO, "<|audio_bos|>", "<|audio_eos|>"]

# vLLM takes clips of no other length: shorter ones are filled up with silence.
SECONDS, RATE, HOP, MEL_BINS = 30, 16000, 160, 80
FRAMES = SECONDS * RATE // HOP


def model_config(vocabulary: int, audio_token: int) -> dict:
    return {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "audio_config": {
            "model_type": "qwen2_audio_encoder",
            "d_model": 64,
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 128,
            "num_mel_bins": MEL_BINS,
            # The encoder halves them.
            "max_source_positions": FRAMES // 2,
        },
        "text_config": {
            "model_type": "qwen2",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "vocab_size": vocabulary,
            "tie_word_embeddings": False,
        },
        "audio_token_index": audio_token,
        "torch_dtype": "bfloat16",
    }


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([BOS, PAD, EOS, *AUDIO_TOKENS])
    tokenizer.save(str(directory / "tokenizer.json"))
    config = model_config(tokenizer.get_vocab_size(), tokenizer.token_to_id(AUDIO))
    files = {
        "config.json": config,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "processor_class": "Qwen2AudioProcessor",
            "bos_token": BOS,
            "pad_token": PAD,
            "eos_token": EOS,
            "chat_template": CHAT_TEMPLATE,
        },
        "preprocessor_config.json": {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "processor_class": "Qwen2AudioProcessor",
            "feature_size": MEL_BINS,
            "hop_length": HOP,
            "n_fft": 400,
            "chunk_length": SECONDS,
            "n_samples": SECONDS * RATE,
            "nb_max_frames": FRAMES,
            "sampling_rate": RATE,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": True,
        },
        "generation_config.json": {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2},
    }
    (directory / "config.json").write_text(json.dumps(config))
    write_weights(directory, Qwen2AudioForConditionalGeneration)
    rename_weights(directory)
    # What transformers would write beside them is of its own version.
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")


def rename_weights(directory: Path) -> None:
    """Names them as in published models; transformers says "model" once more, and vLLM does not know that name."""
    path = directory / "model.safetensors"
    weights = {name.replace(".model.model.", ".model."): weight for name, weight in load_file(path).items()}
    save_file(weights, path, {"format": "pt"})


if __name__ == "__main__":
    write(Path(sys.argv[1]))
