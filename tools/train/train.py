"""Makes models/mirim and models/mirim-draft: text, tokenizer, training, evaluation, files."""

import argparse
import json
import os
import random
import time

import torch
from torch.nn import functional as F

import cards
import dataset
import evaluate
import export
import tokenizer as tokens
from model import DRAFT, MIRIM, Llama
from muon import Muon

SEED, HELD_SEED, THREADS, PER_TASK = 20, 977, 2, 50
# Phases: (steps, rows in a batch, row length, share of long conversations)
PHASES = {"mirim": [(2600, 8, 512, 0.01), (200, 4, 1024, 0.3)], "draft": [(2600, 8, 512, 0.01)]}
MATRIX_RATE, OTHER_RATE = 0.02, 0.004


def doc_mask(docs):
    """docs [b][t] -> [b][1][t][t]: a token sees its own document's past only."""
    same = docs[:, :, None] == docs[:, None, :]
    return torch.tril(same)[:, None]


def batches(phases, tok, render, forbidden, scale):
    """Yields (ids, weights, docs) for every step, made anew, never repeated."""
    for number, (steps, batch, length, long_share) in enumerate(phases):
        steps = max(1, int(steps * scale))
        for first in range(0, steps, 50):
            n = min(50, steps - first)
            made = dataset.rows(f"{SEED}/{number}/{first}", n * batch, length, tok, render, long_share, forbidden)
            for i in range(n):
                yield [torch.from_numpy(x[i * batch:(i + 1) * batch]) for x in made]


def schedule(step, steps):
    """Share of the peak rate: warm-up over 50 steps, level, then a straight fall over the last 60 %."""
    return min((step + 1) / 50, 1.0, max(0.01, (steps - step) / (0.6 * steps)))


def optimizers(model):
    """Muon for the weight matrices of the layers, AdamW for embedding and norms; "peak" is their rate."""
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in named if p.dim() < 2 or "embed" in n]
    both = [Muon(matrices, lr=0.0, weight_decay=0.05),
            torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.97), eps=1e-9, weight_decay=0.0)]
    for optimizer, peak in zip(both, (MATRIX_RATE, OTHER_RATE)):
        for group in optimizer.param_groups:
            group["peak"] = peak
    return both


def train(name, model, tok, render, forbidden, scale):
    """Trains in place; -> {"steps", "tokens", "seconds", "loss"}: loss is the mean of the last 50 steps."""
    phases = PHASES[name]
    steps = sum(max(1, int(p[0] * scale)) for p in phases)
    both, start, losses, seen = optimizers(model), time.time(), [], 0
    for step, (ids, weights, docs) in enumerate(batches(phases, tok, render, forbidden, scale)):
        for group in both[0].param_groups + both[1].param_groups:
            group["lr"] = group["peak"] * schedule(step, steps)
        ids = ids.long()
        logits = model(ids[:, :-1], mask=doc_mask(docs[:, :-1]))
        each = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        w = weights[:, 1:].flatten()
        loss = (each * w).sum() / w.sum()
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in both:
            optimizer.step()
        with torch.no_grad():
            answers = (w == 1.0)
            losses.append(float((each * answers).sum() / answers.sum()))
        seen += ids[:, 1:].numel()
        if step % 50 == 49:
            recent = sum(losses[-50:]) / 50
            print(f"{name} step {step + 1}/{steps} answer loss {recent:.4f} "
                  f"{seen / (time.time() - start):.0f} tokens/s", flush=True)
    return {"steps": steps, "tokens": seen, "seconds": round(time.time() - start),
            "loss": sum(losses[-50:]) / len(losses[-50:])}


def make(name, shape, folder, tok, render, items, scale):
    """One model: train, store, read back, measure what was stored."""
    torch.manual_seed(SEED)
    model = Llama(shape)
    stats = train(name, model, tok, render, dataset.prompts_of(items), scale)
    os.makedirs(folder, exist_ok=True)
    export.save_model(model, folder, tok)
    tokens.save_tokenizer(tok, folder, model.config["max_position_embeddings"])
    stored = export.load_model(folder)
    return stored, stats


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder of the chat model")
    parser.add_argument("--draft-out", required=True, help="folder of the draft model")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the steps, for a trial run")
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)

    render = tokens.chat_renderer()
    items = dataset.held_out(HELD_SEED, PER_TASK)
    forbidden = dataset.prompts_of(items)
    rng = random.Random(SEED)
    tok = tokens.build_tokenizer([dataset.sample_text(rng, render, False, forbidden) for _ in range(20000)])

    model, stats = make("mirim", MIRIM, args.out, tok, render, items, args.scale)
    table, answers = evaluate.accuracy(model, tok, render, items)
    export.save_golden(model, tok, render, args.out)
    export.save_held_out(items, answers, render, tok, model, args.out)
    draft, draft_stats = make("draft", DRAFT, args.draft_out, tok, render, items, args.scale)
    agreement = evaluate.agreement(draft, tok, render, items, answers)
    report = {"mirim": stats, "draft": draft_stats, "accuracy": table, "draft_agreement": agreement,
              "torch": torch.__version__, "threads": THREADS, "items": len(items), "per_task": PER_TASK}
    print(json.dumps(report, indent=2))
    cards.save_cards(report, model, draft, args.out, args.draft_out)


if __name__ == "__main__":
    main()
