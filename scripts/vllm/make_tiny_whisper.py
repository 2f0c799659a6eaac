"""Writes a model directory of a two-layer Whisper with random weights, which hears clips of up to two seconds.
Its transcripts are noise, another noise for other audio; its behaviour is real.

Usage: make_tiny_whisper.py DIRECTORY
"""

import json
import sys
from pathlib import Path

from make_tiny_model import train_tokenizer
from tiny_weights import write_weights
from transformers import WhisperForConditionalGeneration

END, START = "<|endoftext|>", "<|startoftranscript|>"
LANGUAGES, TASKS = ["<|en|>", "<|de|>"], ["<|translate|>", "<|transcribe|>"]
NO_TIMESTAMPS = "<|notimestamps|>"
SPECIAL = [END, START, *LANGUAGES, *TASKS, "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", NO_TIMESTAMPS]

SECONDS, RATE, HOP, MEL_BINS = 2, 16000, 160, 80
FRAMES = SECONDS * RATE // HOP


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([])
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(directory / "tokenizer.json"))
    id_of = tokenizer.token_to_id
    ends = {"bos_token_id": id_of(END), "eos_token_id": id_of(END), "pad_token_id": id_of(END)}
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "num_mel_bins": MEL_BINS,
        # The encoder halves them.
        "max_source_positions": FRAMES // 2,
        "max_target_positions": 448,
        "vocab_size": tokenizer.get_vocab_size(),
        "decoder_start_token_id": id_of(START),
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        **ends,
    }
    files = {
        "config.json": config,
        "tokenizer_config.json": {
            "tokenizer_class": "WhisperTokenizer",
            "processor_class": "WhisperProcessor",
            "bos_token": END,
            "eos_token": END,
            "pad_token": END,
            "unk_token": END,
            "model_max_length": 448,
        },
        "preprocessor_config.json": {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "processor_class": "WhisperProcessor",
            "feature_size": MEL_BINS,
            "hop_length": HOP,
            "n_fft": 400,
            "chunk_length": SECONDS,
            "n_samples": SECONDS * RATE,
            "nb_max_frames": FRAMES,
            "sampling_rate": RATE,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": False,
        },
        "generation_config.json": {
            "decoder_start_token_id": id_of(START),
            "is_multilingual": True,
            "lang_to_id": {name: id_of(name) for name in LANGUAGES},
            "task_to_id": {"transcribe": id_of("<|transcribe|>"), "translate": id_of("<|translate|>")},
            "no_timestamps_token_id": id_of(NO_TIMESTAMPS),
            **ends,
        },
    }
    (directory / "config.json").write_text(json.dumps(config))
    write_weights(directory, WhisperForConditionalGeneration)
    # What transformers would write beside them is of its own version.
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
