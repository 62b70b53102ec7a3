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
        return whole[whole.index("\n") + 1:whole.rindex(IM_END)]
    return item["answer"]


def stops(tok):
    return [tok.token_to_id(IM_END), tok.token_to_id(END_OF_TEXT)]


def accuracy(model, tok, render, items):
    """-> (table {task: {lang: share right}}, answers: the model's ids for each item)."""
    right, total, answers = {}, {}, []
    for item in items:
        expected = expected_text(render, item)
        ids = tok.encode(render_prompt(render, item)).ids
        new = model.greedy(ids, len(tok.encode(expected).ids) + 8, stops(tok))
        key = item["task"], item["lang"]
        total[key] = total.get(key, 0) + 1
        right[key] = right.get(key, 0) + (tok.decode(new, skip_special_tokens=False) == expected)
        answers.append(new)
    table = {}
    for (task, lang), n in total.items():
        table.setdefault(task, {})[lang] = right[task, lang] / n
    return table, answers


@torch.no_grad()
def agreement(draft, tok, render, items, answers):
    """How often the draft's greedy token is the chat model's, over the chat model's answers."""
    same = total = 0
    for item, answer in zip(items, answers):
        ids = tok.encode(render_prompt(render, item)).ids
        if not answer:
            continue
        guess = draft(torch.tensor([ids + answer]))[0, len(ids) - 1:-1].argmax(-1)
        same += int((guess == torch.tensor(answer)).sum())
        total += len(answer)
    return same / total
