"""Conversations and documents, made to order, tokenized and put into batches."""

import random

import numpy as np

import tasks as T
import words as W
from tokenizer import END_OF_TEXT, IM_END, IM_START

BLOCK_TOKENS, STEP_TOKENS, QUARTERS, CONTEXT = 100_000, 2400, 4, 1024
LONG_SHARE = 0.005  # of conversations with many turns
PROMPT_WEIGHT = 0.1  # of the loss on what the user, the system or a tool says; answers weigh 1


def system_prompt(rng, lang, held=False):
    return [{"role": "system", "content": T.from_list(rng, "SYSTEMS", lang, held)}]


def some_turn(rng, lang, skip=(), cycle=0):
    names = [n for n in T.CHAT_TASKS if n not in skip]
    weights = [T.CHAT_TASKS[n][1][cycle] for n in names]
    return T.CHAT_TASKS[rng.choices(names, weights)[0]][0](rng, lang, False)


def tells_name(messages):
    """Whether a name was told or asked for: a second one would make two right answers."""
    marks = ("Nice to meet", "Prazer", "You have not told", "Você ainda não")
    return any(m["content"].startswith(marks) for m in messages)


def conversation(rng, long, cycle):
    """-> (messages, tools or None) for training. long: many turns, towards the context's end."""
    lang = rng.choice(["en", "pt"])
    messages = system_prompt(rng, rng.choice([lang, lang, "en"])) if rng.random() < 0.3 else []
    turns = rng.randint(6, 24) if long else rng.choice([1, 1, 1, 2, 2, 3, 4])
    tools, use, skip = None, [], ()
    if rng.random() < (0.15, 0.2)[cycle]:
        tools, use = T.tool_chat(rng, lang, False, rng.random() < 0.6)
        turns = turns if long else rng.choice([0, 0, 0, 1, 2])
        if any(t["function"]["name"] in ("get_weather", "get_time") for t in tools):
            skip = ("no tool",)
        if rng.random() < 0.15:  # tools at hand, but nothing to use them for
            use, turns = [], turns + 1
    # The tool's use comes somewhere among the turns; a call without its result ends the text.
    place = turns if use and use[-1].get("tool_calls") else rng.randint(0, turns)
    for i in range(turns + 1):
        if i == place:
            messages += use
        if i < turns:
            if rng.random() < 0.1:
                lang = rng.choice(["en", "pt"])
            known = ("name memory",) if tells_name(messages) else ()
            messages += some_turn(rng, lang, skip + known, cycle)
    return messages, tools


def sample_text(rng, render, long=False, forbidden=frozenset(), echo=0.0, cycle=0):
    """A training text without any held-out prompt. echo: the share that only copies."""
    while True:
        if echo and rng.random() < echo:
            return render(T.echo(rng) + T.echo(rng)) + END_OF_TEXT
        if not long and rng.random() < 0.2:
            text = T.document(rng, rng.choice(["en", "pt"]))
            if not any(p in text for p in forbidden if p[0].isupper()):
                return text + END_OF_TEXT
            continue
        messages, tools = conversation(rng, long, cycle)
        if not any(m["role"] == "user" and m["content"] in forbidden for m in messages):
            return render(messages, tools) + END_OF_TEXT


def weigh(tok, ids):
    """The weight of each id as a target: 1 in answers (to <|im_end|>) and documents."""
    start, end, eot = (tok.token_to_id(s) for s in (IM_START, IM_END, END_OF_TEXT))
    if ids[0] != start:
        return [1.0] * len(ids)
    head = tok.encode(IM_START + "assistant\n").ids
    weights, answer = [], False
    for i, t in enumerate(ids):
        weights.append(1.0 if answer or t == eot else PROMPT_WEIGHT)
        if t == end:
            answer = False
        elif ids[max(0, i + 1 - len(head)) : i + 1] == head:
            answer = True
    return weights


def batch_of(docs):
    """docs: lists of (id, weight) -> ids [b][t] int64 and weights f32, padded with zeros."""
    ids = np.zeros((len(docs), max(map(len, docs))), np.int64)
    weights = np.zeros(ids.shape, np.float32)
    for row, doc in enumerate(docs):
        ids[row, : len(doc)], weights[row, : len(doc)] = zip(*doc)
    return ids, weights


def steps_of_block(seed, tok, render, forbidden, echo, cycle):
    """About BLOCK_TOKENS tokens of new text -> steps: lists of QUARTERS batches.

    A batch holds texts of about one length, so that little is padding; a step has one batch from
    each quarter of the lengths, so that steps are alike.
    """
    rng, docs, total = random.Random(seed), [], 0
    while total < BLOCK_TOKENS:
        text = sample_text(rng, render, rng.random() < LONG_SHARE, forbidden, echo, cycle)
        ids = tok.encode(text).ids
        doc = list(zip(ids, weigh(tok, ids)))[:CONTEXT]
        docs.append(doc)
        total += len(doc)
    docs.sort(key=len)
    batches = [[]]
    for doc in docs:
        if batches[-1] and (len(batches[-1]) + 1) * len(doc) > STEP_TOKENS // QUARTERS:
            batches.append([])
        batches[-1].append(doc)
    size = len(batches) // QUARTERS
    quarters = [batches[q * size : (q + 1) * size] for q in range(QUARTERS)]
    for quarter in quarters:
        rng.shuffle(quarter)
    return [[batch_of(b) for b in step] for step in zip(*quarters)]


# ---- what is held out --------------------------------------------------------------------------


def with_context(rng, lang, turn):
    """A held-out exchange alone, after a system prompt, or after another exchange."""
    r = rng.random()
    if r < 0.25:
        return system_prompt(rng, lang, True) + turn
    if r < 0.5:
        return some_turn(rng, lang, ("name memory", "no tool")) + turn
    return turn


def held_out(seed, per_task):
    """-> list of {task, lang, messages|prompt, tools, answer}: unseen phrasings and fillers."""
    rng, items = random.Random(seed), []
    chat = {name: f for name, (f, _) in T.CHAT_TASKS.items()}
    chat["sum, new pair"] = T.arithmetic("sum", "+", new=True)
    chat["difference, new pair"] = T.arithmetic("difference", "-", new=True)
    for lang in ("en", "pt"):
        for name, make in chat.items():
            for _ in range(per_task):
                turn = make(rng, lang, True)
                messages = turn if name == "name memory" else with_context(rng, lang, turn)
                items.append(
                    {
                        "task": name,
                        "lang": lang,
                        "messages": messages[:-1],
                        "tools": None,
                        "answer": messages[-1]["content"],
                    }
                )
        for name, answered in (("tool call", False), ("tool answer", True)):
            for _ in range(per_task):
                tools, messages = T.tool_chat(rng, lang, True, answered)
                if rng.random() < 0.3:
                    messages = system_prompt(rng, lang, True) + messages
                items.append(
                    {
                        "task": name,
                        "lang": lang,
                        "messages": messages[:-1],
                        "tools": tools,
                        "answer": messages[-1]["content"],
                        "call": messages[-1].get("tool_calls"),
                    }
                )
        for _ in range(per_task):
            prompt, rest = T.opening(rng, lang, True)
            items.append({"task": "continuation", "lang": lang, "prompt": prompt, "answer": rest})
    return items


def prompts_of(items):
    """What training must not contain: the questions of the held-out set and the openings."""
    return frozenset(
        i["prompt"] if "prompt" in i else i["messages"][-1]["content"]
        for i in items
        if "prompt" in i or i["messages"][-1]["role"] == "user"
    )
