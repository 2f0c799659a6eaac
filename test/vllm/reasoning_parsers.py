"""Cuts a made-up answer behind each of its tokens, for every reasoning parser of vLLM, and lets a new parser go on.

Prints a line of JSON for each parser and way to begin: the cuts that went on exactly, and those that did not, by
what came last before the cut; and whether all that was told piece by piece is what the parser makes of the whole.
Argument: the folder of a model with a tokenizer.
"""

import json
import logging
import sys

logging.disable(logging.CRITICAL)

from transformers import AutoTokenizer  # noqa: E402
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: E402
from vllm.parser.parser_manager import ParserManager  # noqa: E402
from vllm.reasoning import ReasoningParserManager  # noqa: E402

# What the parsers look for in a vocabulary.
MARKS = [
    *["<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", "<mm:think>", "</mm:think>"],
    *["<|channel>", "<channel|>", "<|turn>", "<turn|>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>"],
    *["<|return|>", "<|call|>", "<|constrain|>", "<tool_call>", "</tool_call>"],
]
REASONING = "Let me see. It is two, I think."
ANSWER = "\n\nThe answer is 2, and no more."

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
tokenizer.add_tokens(MARKS, special_tokens=True)
messages = [{"role": "user", "content": "hello"}]
request = ChatCompletionRequest(model="tiny", messages=messages, stream=True)


def ids_of(text):
    return tokenizer.encode(text, add_special_tokens=False)


def deltas(parser_class, prompt, ids):
    """Reasoning and content as far as they have been told behind each token."""
    parser = parser_class(tokenizer, None, chat_template_kwargs={})
    reasoning = content = ""
    told = []
    for at, token in enumerate(ids):
        delta = parser.parse_delta(
            tokenizer.decode([token], skip_special_tokens=False),
            [token],
            request,
            prompt_token_ids=prompt,
            finished=at == len(ids) - 1,
        )
        if delta is not None:
            reasoning += delta.reasoning or ""
            content += delta.content or ""
        told.append((reasoning, content))
    return told


def in_one_piece(parser_class, prompt, ids):
    parser = parser_class(tokenizer, None, chat_template_kwargs={})
    parser.set_prompt_token_ids(prompt)
    text = tokenizer.decode(ids, skip_special_tokens=False)
    reasoning, content, _ = parser.parse(text, request, enable_auto_tools=False, model_output_token_ids=ids)
    return (reasoning or "", content or "")


def cuts(parser_class, prompt, ids):
    whole = deltas(parser_class, prompt, ids)
    counted = {}
    for at in range(1, len(ids)):
        reasoning, content = whole[at - 1]
        more = deltas(parser_class, prompt + ids[:at], ids[at:])[-1]
        is_exact = (reasoning + more[0], content + more[1]) == whole[-1]
        last = "content" if content.strip() else "reasoning" if reasoning else "nothing"
        counted.setdefault(last, [0, 0])[0 if is_exact else 1] += 1
    parts = {"reasons": whole[-1][0] != "", "answers": whole[-1][1].strip() != ""}
    return {**parts, "whole": in_one_piece(parser_class, prompt, ids) == whole[-1], **counted}


for name in sorted(ReasoningParserManager.list_registered()):
    try:
        plain = ReasoningParserManager.get_reasoning_parser(name)(tokenizer)
        start, end = plain.reasoning_start_str or "<think>", plain.reasoning_end_str or "</think>"
        parser = ParserManager.get_parser(reasoning_parser_name=name, model_name="tiny", tokenizer=tokenizer)
        prompt = ids_of("user: hello\nassistant: ")
        ways = {
            "begins it": (prompt, start + REASONING + end + ANSWER),
            "is in it": (prompt + ids_of(start), REASONING + end + ANSWER),
            "is past it": (prompt + ids_of(start + end), ANSWER),
            "knows none": (prompt, ANSWER),
        }
        for way, (before, text) in ways.items():
            print(json.dumps({"parser": name, "way": way, **cuts(parser, before, ids_of(text))}), flush=True)
    except Exception as error:  # Needs what this tokenizer or installation does not have.
        print(json.dumps({"parser": name, "way": "unusable", "why": str(error)[:100]}), flush=True)
