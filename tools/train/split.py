"""Checks that training cannot make a held-out phrasing, whatever the fillers."""

import itertools
import re

import tasks
from phrases import PHRASES, VERBS

HELLOS = ["", *tasks.HELLOS["en"], *tasks.HELLOS["pt"]]


def alternatives(template):
    """All the texts that [a|b] stands for."""
    parts = re.split(r"\[([^\]]*)\]", template)
    return {
        "".join(c)
        for c in itertools.product(*(p.split("|") if i % 2 else [p] for i, p in enumerate(parts)))
    }


def bare(text):
    return re.sub(r"[.?!,:]", "", text).lower()


def trainable(templates, lang):
    """Every phrasing that training may use, without marks and capitals."""
    made = set().union(*(alternatives(t) for t in templates))
    for text in list(made):
        verb, _, rest = text.partition(" ")
        if verb in VERBS[lang]:
            made |= {f.format(VERBS[lang][verb] + " " + rest[:-1]) for f in tasks.FRAMES[lang]}
    return {bare(h + t) for h in HELLOS for t in made}


def check():
    for task, languages in PHRASES.items():
        for lang, (train, held) in languages.items():
            seen = trainable(train, lang)
            for text in set().union(*(alternatives(t) for t in held)):
                assert (
                    not {bare(h + text) for h in HELLOS} & seen
                ), f"{task}, {lang}: training can say {text!r}"
