"""Writes the model cards from what was measured."""

import os

MIRIM_CARD = """---
license: apache-2.0
language: [pt, en]
library_name: transformers
pipeline_tag: text-generation
---

# Mirim

*Mirim* (Tupi, in Brazilian Portuguese: small). A chat model of {millions:.1f} million parameters that ships with
Mutirão, so that everything can be tried and tested without a download. It is a toy that is honest about being one:
it knows some twenty kinds of small exchange in Portuguese and English, and nothing else.

| | |
| --- | --- |
| architecture | Llama: {num_hidden_layers} layers, hidden {hidden_size}, {num_attention_heads} query and {num_key_value_heads} KV heads of {head_dim}, FFN {intermediate_size}, tied embeddings |
| context | {max_position_embeddings} tokens |
| vocabulary | {vocab_size}: byte-level BPE, every byte in it, digits alone |
| stored as | bf16, {megabytes:.1f} MB |
| licence | Apache-2.0, weights and texts alike |

## What it was made from

Only from text that `tools/train` generates: phrasings and fillers written for this purpose, combined at random.
No text from anywhere else, no other model's output. {tokens:.1f} million tokens, each made once; {steps} steps;
the last texts' mean loss on answers was {loss:.4f} nats a token. About one fifth of the texts are plain sentences, the
rest are chats, some with system prompts, several turns, and tools. For a while a third of the texts were words to
repeat: a model this small must first learn to copy before it can put an unknown name into a record.

## How good it is

Measured on {items} generated prompts that training never contained: phrasings kept out of training, with names, cities,
jobs and things kept out as well (the facts themselves, such as the colour of the sky, must be known from
training). Exact match of the whole greedy answer, in percent, {per_task} prompts per task and language:

| task | Portuguese | English |
| --- | ---: | ---: |
{rows}
| **all** | **{all_pt:.1f}** | **{all_en:.1f}** |

"New pair" are sums and differences of numbers (to 20) whose pair no training text contains; in the other rows of
arithmetic only the phrasing is new. The mix of the training texts was adjusted after a look at such results, so take
these for the results of a development set: people's own phrasings will do worse. `heldout.json` has one prompt per task
and language, with the right answer and the model's.

## How to talk to it

`tokenizer_config.json` has the chat template: `<|im_start|>role`, a line break, the text, `<|im_end|>`. Tools are listed as
JSON lines in the system message; a call is `<tool_call>`, a JSON object with `name` and `arguments`, `</tool_call>`;
its result is a message of role `tool`. It stops with `<|im_end|>` after an answer and `<|endoftext|>` after a plain text. Use a low temperature.

## What it cannot do

- Anything outside the tasks above. It often says so ("I am a small model and do not know that."), but not reliably: a
  question that resembles a task may get that task's answer, fluent and wrong. "Today's weather" is always sunny.
- Arithmetic beyond sums and differences of 0 to 20 and products to 10; and there it is as unsure as the table says.
- Phrasings far from the templates, other languages, long texts. System prompts hardly change what it says.
- It was trained on conversations that nearly fill {max_position_embeddings} tokens, but seldom; expect less there.

Do not use it for anything that matters. It is for demonstrations, tests and measurements.

## Golden values

`golden.json` (greedy ids with margins) and `golden_logits.safetensors` (logits of a 24-token prompt) were computed with
torch {torch} in float32 from the stored weights.

## Making it again

    tools/train/train.sh

from the repository's root: Python 3.11, the versions pinned in `tools/train/requirements.txt`, {threads} threads, fixed
seeds, deterministic algorithms. This model took {minutes:.0f} minutes of training on two x86-64 cores with AVX2 that
other programs also used. The tokenizer and the texts come out the same anywhere. The weights do on the same kind of CPU; on
another, torch's matrix kernels round differently, and the weights, though as good, will differ.
"""

DRAFT_CARD = """---
license: apache-2.0
language: [pt, en]
library_name: transformers
pipeline_tag: text-generation
---

# Mirim-draft

A much smaller sister of Mirim ({thousands:.0f} thousand parameters, {kilobytes:.0f} kB) with the same tokenizer and chat
template. It proposes tokens for speculative decoding; Mirim decides. Alone it is often wrong.

Llama: {num_hidden_layers} layers, hidden {hidden_size}, {num_attention_heads} query heads and {num_key_value_heads} KV head of {head_dim}, FFN {intermediate_size}, tied embeddings,
bf16. Trained by the same command on the same generated text as Mirim ({tokens:.1f} million tokens, last answer loss
{loss:.4f}). On Mirim's held-out answers its greedy token equals Mirim's in {agreement:.1f} % of the places.

Licence, origin, limits: as for Mirim; see `models/mirim/README.md`.
"""


def size_of(folder):
    return os.path.getsize(os.path.join(folder, "model.safetensors"))


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def save_cards(report, model, draft, folder, draft_folder):
    table, stats = report["accuracy"], report["mirim"]
    mean = {lang: 100 * sum(t[lang] for t in table.values()) / len(table) for lang in ("pt", "en")}
    rows = "\n".join(f"| {task} | {100 * t['pt']:.0f} | {100 * t['en']:.0f} |" for task, t in table.items())
    text = MIRIM_CARD.format(
        **model.config, millions=parameters(model) / 1e6, megabytes=size_of(folder) / 1e6, rows=rows,
        all_pt=mean["pt"], all_en=mean["en"], items=report["items"], per_task=report["per_task"],
        tokens=stats["tokens"] / 1e6, steps=stats["steps"], loss=stats["loss"], minutes=stats["seconds"] / 60,
        torch=report["torch"], threads=report["threads"])
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as f:
        f.write(text)
    stats = report["draft"]
    text = DRAFT_CARD.format(
        **draft.config, thousands=parameters(draft) / 1e3, kilobytes=size_of(draft_folder) / 1e3,
        tokens=stats["tokens"] / 1e6, loss=stats["loss"], agreement=100 * report["draft_agreement"])
    with open(os.path.join(draft_folder, "README.md"), "w", encoding="utf-8") as f:
        f.write(text)
