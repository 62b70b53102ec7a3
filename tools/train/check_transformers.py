"""Checks a model folder against the transformers library: tokens, template, logits, text.

pip install -r tools/train/requirements-dev.txt
python tools/train/check_transformers.py models/mirim
"""

import json
import os
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import export
import tokenizer as tokens


CITY_TOOL = export.GOLDEN_PROMPTS[3][1]
USED = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": [{"type": "text", "text": "Weather in Porto?"}]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Porto"}}},
        {"type": "function", "function": {"name": "get_time", "arguments": '{"city": "Porto"}'}}]},
    {"role": "tool", "content": '{"temperature": 20, "sky": "clear"}'},
]
CONVERSATIONS = [*export.GOLDEN_PROMPTS[2:], (USED, CITY_TOOL), (USED, None)]


def check(folder):
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tok = AutoTokenizer.from_pretrained(folder)
    ours = export.load_model(folder)
    golden = os.path.join(folder, "golden.json")
    cases = json.load(open(golden, encoding="utf-8"))["cases"] if os.path.exists(golden) else []
    for case in cases:
        assert tok(case["prompt"])["input_ids"] == case["ids"], "tokenizer differs"
        out = theirs.generate(
            torch.tensor([case["ids"]]), max_new_tokens=32, do_sample=False, eos_token_id=None
        )
        assert out[0, len(case["ids"]) :].tolist() == case["greedy_ids"], "greedy ids differ"
    render = tokens.chat_renderer()
    for messages, tools in CONVERSATIONS:
        for prompt in (False, True):
            text = tok.apply_chat_template(
                messages, tools=tools, add_generation_prompt=prompt, tokenize=False
            )
            assert text == render(messages, tools, prompt), "chat template differs"
    ids = torch.arange(1024)[torch.randperm(1024, generator=torch.Generator().manual_seed(1))][None]
    with torch.no_grad():
        a, b = theirs(ids).logits, ours(ids)
    print(
        f"{folder}: largest difference of 1024 x 1024 logits {float((a - b).abs().max()):.2e}, "
        f"their spread {float(a.std()):.2f}"
    )
    assert torch.allclose(a, b, atol=1e-3)
    logits = os.path.join(folder, "golden_logits.safetensors")
    if os.path.exists(logits):
        stored = load_file(logits)
        with torch.no_grad():
            again = theirs(stored["input_ids"][None]).logits[0]
        assert torch.allclose(again, stored["logits"], atol=1e-3), "golden logits differ"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        check(name)
