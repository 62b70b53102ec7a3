"""Measures a stored model on what it has never seen: exact match of the whole greedy answer."""

import torch

from tokenizer import END_OF_TEXT, IM_END


def render_prompt(render, item):
    if "prompt" in item:
        return item["prompt"]
    return render(item["messages"], item["tools"], add_generation_prompt=True)


def expected_text(render, item):
    """The right answer as the model writes it, without the end token."""
    if item.get("call"):
        whole = render([{"role": "assistant", "content": "", "tool_calls": item["call"]}])
        return whole[whole.index("\n") + 1 : whole.rindex(IM_END)]
    return item["answer"]


def stops(tok):
    return [tok.token_to_id(IM_END), tok.token_to_id(END_OF_TEXT)]


def answers_of(model, tok, render, items):
    """The model's greedy ids for each item; prompts of one length go together."""
    prompts = [tok.encode(render_prompt(render, item)).ids for item in items]
    lengths = [len(tok.encode(expected_text(render, item)).ids) for item in items]
    answers = [None] * len(items)
    for length in sorted(set(map(len, prompts))):
        group = [i for i, p in enumerate(prompts) if len(p) == length]
        most = max(lengths[i] for i in group) + 4
        new = model.greedy([prompts[i] for i in group], most, stops(tok))
        for i, answer in zip(group, new):
            answers[i] = answer
    return answers


def accuracy(tok, render, items, answers):
    """-> table {task: {lang: share of answers that are exactly right}}."""
    right, total = {}, {}
    for item, new in zip(items, answers):
        key = item["task"], item["lang"]
        text = tok.decode(new, skip_special_tokens=False)
        total[key] = total.get(key, 0) + 1
        right[key] = right.get(key, 0) + (text == expected_text(render, item))
    table = {}
    for (task, lang), n in total.items():
        table.setdefault(task, {})[lang] = right[task, lang] / n
    return table


@torch.no_grad()
def agreement(draft, tok, render, items, answers):
    """How often the draft's greedy token is the chat model's, over the chat model's answers."""
    same = total = 0
    for item, answer in zip(items, answers):
        ids = tok.encode(render_prompt(render, item)).ids
        if not answer:
            continue
        guess = draft(torch.tensor([ids + answer]))[0, len(ids) - 1 : -1].argmax(-1)
        same += int((guess == torch.tensor(answer)).sum())
        total += len(answer)
    return same / total
