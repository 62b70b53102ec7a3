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
import split
import tokenizer as tokens
from model import DRAFT, MIRIM, Llama
from muon import Muon

SEED, HELD_SEED, THREADS, PER_TASK = 20, 977, 2, 50
# Cycles of blocks of dataset.BLOCK_TOKENS tokens; the second has more of what is hard.
CYCLES = {"mirim": [34, 24], "draft": [20]}
FALL = 0.4  # the last share of a cycle, over which the rate falls
# From which block which share of texts only copies: first to talk, then to copy, then both.
ECHO = [(0, 0.0), (10, 0.35), (17, 0.1)]
MATRIX_RATE, OTHER_RATE = 0.02, 0.004


def schedule(block, blocks):
    """Share of the peak rate after `block` (a fraction) of a cycle's blocks: rise, level, fall."""
    return min(0.02 + block, 1.0, max(0.01, (blocks - block) / (FALL * blocks)))


def cycle_of(number, cycles):
    """Block `number` of all -> (its cycle, its number in the cycle)."""
    cycle = 0 if number < cycles[0] else 1
    return cycle, number - cycle * cycles[0]


def optimizers(model):
    """Muon for the layers' matrices, AdamW for embedding and norms; "peak" is their rate."""
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in named if p.dim() < 2 or "embed" in n]
    both = [
        Muon(matrices, lr=0.0, weight_decay=0.05),
        torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.97), eps=1e-9, weight_decay=0.0),
    ]
    for optimizer, peak in zip(both, (MATRIX_RATE, OTHER_RATE)):
        for group in optimizer.param_groups:
            group["peak"] = peak
    return both


def train_step(model, both, batches):
    """One step; -> (sum of the loss on answers, number of answer tokens)."""
    model.zero_grad(set_to_none=True)
    total = sum(float(w[:, 1:].sum()) for _, w in batches)
    lost = count = 0.0
    for ids, weights in batches:
        ids, w = torch.from_numpy(ids), torch.from_numpy(weights)[:, 1:].flatten()
        logits = model(ids[:, :-1])
        each = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        ((each * w).sum() / total).backward()
        answers = w == 1.0
        lost += float(each.detach()[answers].sum())
        count += float(answers.sum())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in both:
        optimizer.step()
    return lost, count


def train_block(model, both, number, cycles, tok, render, forbidden):
    """One block of new text; -> (mean loss on answers, tokens, steps)."""
    lost = count = tokens_seen = 0
    echo = next(share for start, share in reversed(ECHO) if number >= start)
    cycle, at = cycle_of(number, cycles)
    steps = dataset.steps_of_block(f"{SEED}/{number}", tok, render, forbidden, echo, cycle)
    for i, batches in enumerate(steps):
        for group in both[0].param_groups + both[1].param_groups:
            group["lr"] = group["peak"] * schedule(at + i / len(steps), cycles[cycle])
        a, b = train_step(model, both, batches)
        lost, count = lost + a, count + b
        tokens_seen += sum(ids.size for ids, _ in batches)
    return lost / count, tokens_seen, len(steps)


def train(name, model, tok, render, forbidden, scale):
    """Trains in place; -> {"steps", "tokens", "seconds", "loss" (mean of the last block)}."""
    cycles = [max(1, round(blocks * scale)) for blocks in CYCLES[name]]
    both, start = optimizers(model), time.time()
    stats = {"steps": 0, "tokens": 0}
    for number in range(sum(cycles)):
        loss, seen, steps = train_block(model, both, number, cycles, tok, render, forbidden)
        stats["steps"] += steps
        stats["tokens"] += seen
        stats["seconds"] = round(time.time() - start)
        stats["loss"] = loss
        print(f"{name} block {number + 1}/{sum(cycles)} answer loss {loss:.4f}, "
              f"{stats['tokens'] / (stats['seconds'] + 1):.0f} tokens/s", flush=True)
    return stats


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
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the blocks, for a trial run"
    )
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)

    split.check()
    render = tokens.chat_renderer()
    items = dataset.held_out(HELD_SEED, PER_TASK)
    forbidden = dataset.prompts_of(items)
    rng = random.Random(SEED)
    tok = tokens.build_tokenizer(
        [dataset.sample_text(rng, render, False, forbidden) for _ in range(20000)]
    )

    model, stats = make("mirim", MIRIM, args.out, tok, render, items, args.scale)
    answers = evaluate.answers_of(model, tok, render, items)
    table = evaluate.accuracy(tok, render, items, answers)
    export.save_golden(model, tok, render, args.out)
    export.save_held_out(items, answers, render, tok, model, args.out)
    draft, draft_stats = make("draft", DRAFT, args.draft_out, tok, render, items, args.scale)
    agreement = evaluate.agreement(draft, tok, render, items, answers)
    report = {
        "mirim": stats,
        "draft": draft_stats,
        "accuracy": table,
        "draft_agreement": agreement,
        "torch": torch.__version__.partition("+")[0],
        "threads": THREADS,
        "items": len(items),
        "per_task": PER_TASK,
    }
    print(json.dumps(report, indent=2))
    cards.save_cards(report, model, draft, args.out, args.draft_out)


if __name__ == "__main__":
    main()
