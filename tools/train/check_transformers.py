"""Checks a model folder against the transformers library: tokenizer, chat template, logits, greedy text.

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


def check(folder):
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tok = AutoTokenizer.from_pretrained(folder)
    ours = export.load_model(folder)
    golden = os.path.join(folder, "golden.json")
    cases = json.load(open(golden, encoding="utf-8"))["cases"] if os.path.exists(golden) else []
    for case in cases:
        assert tok(case["prompt"])["input_ids"] == case["ids"], "tokenizer differs"
        out = theirs.generate(torch.tensor([case["ids"]]), max_new_tokens=32, do_sample=False, eos_token_id=None)
        assert out[0, len(case["ids"]):].tolist() == case["greedy_ids"], "greedy ids differ"
    render = tokens.chat_renderer()
    for prompt, tools in export.GOLDEN_PROMPTS[2:]:
        text = tok.apply_chat_template(prompt, tools=tools, add_generation_prompt=True, tokenize=False)
        assert text == render(prompt, tools, add_generation_prompt=True), "chat template differs"
    ids = torch.arange(1024)[torch.randperm(1024, generator=torch.Generator().manual_seed(1))][None]
    with torch.no_grad():
        a, b = theirs(ids).logits, ours(ids)
    print(f"{folder}: largest difference of 1024 x 1024 logits {float((a - b).abs().max()):.2e}, "
          f"their spread {float(a.std()):.2f}")
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
