"""Writes the model folders: weights, configuration, golden values, held-out questions."""

import json
import os

import torch
from safetensors.torch import load_file, save_file

import evaluate
from model import COMMON, Llama
from tokenizer import END_OF_TEXT, IM_END


def write_json(folder, name, data):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(data, f, indent=2, ensure_ascii=False)
        f.write("\n")


def write_cases(folder, name, head, cases):
    """{head…, "cases": [one case a line]}"""
    start = json.dumps(head, indent=2, ensure_ascii=False)[:-2]
    lines = ",\n    ".join(json.dumps(c, ensure_ascii=False) for c in cases)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(f'{start},\n  "cases": [\n    {lines}\n  ]\n}}\n')


def save_model(model, folder, tok):
    """The weights as bf16, under Hugging Face's names; the head is the embedding (tied)."""
    weights = {
        name: p.detach().to(torch.bfloat16).contiguous() for name, p in model.state_dict().items()
    }
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    end, eot = tok.token_to_id(IM_END), tok.token_to_id(END_OF_TEXT)
    write_json(
        folder,
        "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            **model.config,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "attention_dropout": 0.0,
            "rope_scaling": None,
            "tie_word_embeddings": True,
            "initializer_range": 0.03,
            "use_cache": True,
            "bos_token_id": eot,
            "eos_token_id": end,
            "pad_token_id": eot,
            "torch_dtype": "bfloat16",
        },
    )
    write_json(
        folder,
        "generation_config.json",
        {
            "bos_token_id": eot,
            "eos_token_id": [end, eot],
            "pad_token_id": eot,
            "do_sample": True,
            "temperature": 0.2,
            "top_p": 0.9,
            "max_new_tokens": 128,
        },
    )


def load_model(folder):
    """The stored model, weights widened to f32."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    model = Llama({k: v for k, v in config.items() if isinstance(v, int) and k not in COMMON})
    weights = load_file(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({k: v.float() for k, v in weights.items()})
    return model.eval()


GOLDEN_PROMPTS = [
    ("Today's weather is so", None),
    ("O céu é", None),
    ([{"role": "user", "content": "Can you add 7 and 5?"}], None),
    (
        [{"role": "user", "content": "Pode ver o tempo em Vitoria?"}],
        [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "O tempo agora",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    },
                },
            }
        ],
    ),
]


@torch.no_grad()
def margins(model, ids, new):
    """How far the greedy id leads the runner-up, in logits, at each step; in one forward pass."""
    logits = model(torch.tensor([ids + new]))[0, len(ids) - 1 : -1]
    top = logits.topk(2)
    assert top.indices[:, 0].tolist() == new, "one pass and token by token disagree"
    return [round(float(m), 5) for m in top.values[:, 0] - top.values[:, 1]]


def save_golden(model, tok, render, folder):
    """Greedy ids from torch in f32 (the stored weights widened), the end tokens not stopping."""
    cases = []
    for prompt, tools in GOLDEN_PROMPTS:
        text = (
            prompt if isinstance(prompt, str) else render(prompt, tools, add_generation_prompt=True)
        )
        ids = tok.encode(text).ids
        new = model.greedy([ids], 32)[0]
        cases.append(
            {
                "prompt": text,
                "ids": ids,
                "greedy_ids": new,
                "margins": margins(model, ids, new),
                "greedy_text": tok.decode(new, skip_special_tokens=False),
            }
        )
    write_cases(
        folder,
        "golden.json",
        {
            "about": "Greedy continuations from the stored weights in float32; end tokens do "
            "not stop them. margins: the lead of each greedy token over the runner-up, in logits.",
            "made_with": f"torch {torch.__version__.partition('+')[0]}",
        },
        cases,
    )
    ids = tok.encode(GOLDEN_LOGITS_TEXT).ids[:24]
    assert len(ids) == 24
    with torch.no_grad():
        logits = model(torch.tensor([ids]))[0].contiguous()
    save_file(
        {"input_ids": torch.tensor(ids), "logits": logits},
        os.path.join(folder, "golden_logits.safetensors"),
    )


GOLDEN_LOGITS_TEXT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    "Qual a cor do mar? 3 + 4 = 7<|im_end|>\n<|im_start|>assistant\n"
)


def save_held_out(items, answers, render, tok, model, folder):
    """The first held-out question of each task and language, with the answer, right or not."""
    kept, seen = [], set()
    for item, answer in zip(items, answers):
        if (item["task"], item["lang"]) in seen:
            continue
        seen.add((item["task"], item["lang"]))
        expected = evaluate.expected_text(render, item)
        text = tok.decode(answer, skip_special_tokens=False)
        ids = tok.encode(evaluate.render_prompt(render, item)).ids
        kept.append(
            {
                "task": item["task"],
                "lang": item["lang"],
                "messages": item.get("messages"),
                "tools": item.get("tools"),
                "prompt": evaluate.render_prompt(render, item),
                "expected": expected,
                "greedy": text,
                "right": text == expected,
                "least_margin": min(margins(model, ids, answer), default=None),
            }
        )
    write_cases(
        folder,
        "heldout.json",
        {
            "about": "Held-out prompts. expected: the right answer; greedy: what this model says "
            "(torch float32, to the end token); least_margin: its narrowest lead of a greedy token."
        },
        kept,
    )
