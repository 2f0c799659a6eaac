"""Writes a tiny model for llama.cpp: random weights, and a vocabulary of which any choice is readable text.

Usage: make_tiny_gguf.py FILE
"""

import sys

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, INNER, CONTEXT = 4, 256, 4, 512, 32768
SPECIAL = ["<unk>", "<s>", "</s>"]
SYLLABLES = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
# The blank that begins a word is written as U+2581.
WORDS = ["\u2581" + syllable for syllable in SYLLABLES] + SYLLABLES + ["\u2581ü", "\u2581日本", "."]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

tokens = SPECIAL + BYTES + WORDS
types = (
    [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    + [gguf.TokenType.BYTE] * len(BYTES)
    + [gguf.TokenType.NORMAL] * len(WORDS)
)

random = np.random.default_rng(7)


def weights(rows: int, columns: int, scale: float = 0.05) -> np.ndarray:
    return random.normal(0, scale, (rows, columns)).astype(np.float32)


def leaving_last(matrix: np.ndarray) -> np.ndarray:
    """Adds nothing to the last dimension of what flows through the model."""
    matrix[-1] = 0
    return matrix


writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_name("tiny")
writer.add_context_length(CONTEXT)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(INNER)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_vocab_size(len(tokens))
writer.add_file_type(gguf.LlamaFileType.ALL_F32)
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * len(SPECIAL + BYTES) + [float(len(word)) for word in WORDS])
writer.add_token_types(types)
writer.add_unk_token_id(0)
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_chat_template(
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
)

# The last dimension is the same for every token, so that what the head does with it works as a bias: against bytes,
# half of which are no text, and against the end, which leaves the length to max_tokens.
embeddings = weights(len(tokens), WIDTH, 1)
embeddings[:, -1] = 4
head = weights(len(tokens), WIDTH, 0.2)
head[: len(SPECIAL + BYTES), -1] = -20
head[len(SPECIAL + BYTES) :, -1] = 0
ones = np.ones(WIDTH, dtype=np.float32)
writer.add_tensor("token_embd.weight", embeddings)
writer.add_tensor("output_norm.weight", ones)
writer.add_tensor("output.weight", head)
for layer in range(LAYERS):
    name = f"blk.{layer}"
    writer.add_tensor(f"{name}.attn_norm.weight", ones)
    writer.add_tensor(f"{name}.ffn_norm.weight", ones)
    for part in ("q", "k", "v"):
        writer.add_tensor(f"{name}.attn_{part}.weight", weights(WIDTH, WIDTH))
    writer.add_tensor(f"{name}.attn_output.weight", leaving_last(weights(WIDTH, WIDTH)))
    writer.add_tensor(f"{name}.ffn_gate.weight", weights(INNER, WIDTH))
    writer.add_tensor(f"{name}.ffn_up.weight", weights(INNER, WIDTH))
    writer.add_tensor(f"{name}.ffn_down.weight", leaving_last(weights(WIDTH, INNER)))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
