"""The tasks: each function makes one exchange (or document) from phrases and fillers.

A task function takes (rng, lang, held) and returns a list of chat messages that ends with the
assistant's answer. `held` chooses phrasings and fillers that training never sees. Answers are a
function of the question, so that greedy decoding has one right text.
"""

import json
import random
import re
import unicodedata

import words as W
from phrases import OPENINGS, PHRASES, VERBS


def expand(rng, template, **fill):
    """Choose among [a|b], then put the fillers in."""
    text = re.sub(r"\[([^\]]*)\]", lambda m: rng.choice(m[1].split("|")), template)
    return re.sub(r"\{(\w+)\}", lambda m: str(fill[m[1]]), text)


HELLOS = {"en": ["Hi! ", "Hello, "], "pt": ["Oi! ", "Olá, "]}


def dress(rng, text, lang):
    """People write carelessly: small letters, no final mark, a greeting, a please."""
    r = rng.random()
    if r < 0.12:
        return text[0].lower() + text[1:]
    if r < 0.20 and text[-1] in ".?":
        return text[:-1]
    if r < 0.26:
        return rng.choice(HELLOS[lang]) + text
    if r < 0.32:
        return text + rng.choice(
            {"en": [" Thanks!", " Please!"], "pt": [" Obrigado!", " Por favor!"]}[lang]
        )
    return text


FRAMES = {
    "en": ["Could you {}?", "Can you {} for me?", "Please, {}.", "I want you to {}."],
    "pt": ["Você pode {}?", "Poderia {}?", "Quero {}."],
}


def frame(rng, template, lang):
    """For training: an order ("Tell me …") may become a request ("Could you tell me …?").

    The frames of the held-out phrasings ("Can you …?", "Pode …?") are others.
    """
    verb, _, rest = template.partition(" ")
    if rng.random() > 0.3 or verb not in VERBS[lang] or template[-1] not in "." or ". " in template:
        return template
    return rng.choice(FRAMES[lang]).format(VERBS[lang][verb] + " " + rest[:-1])


def ask(rng, task, lang, held, **fill):
    template = rng.choice(PHRASES[task][lang][held])
    return dress(rng, expand(rng, template if held else frame(rng, template, lang), **fill), lang)


def pair(question, answer):
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def from_list(rng, name, lang, held):
    """An element of W.name, or of W.name_HELD."""
    values = getattr(W, name + "_HELD" if held else name)
    return rng.choice(values[lang] if isinstance(values, dict) else values)


def invented(rng):
    """A name nobody has: teaches to copy letters rather than to know names."""
    return "".join(rng.choice(W.SYLLABLES) for _ in range(rng.randint(2, 3))).capitalize()


def a_name(rng, held):
    return invented(rng) if not held and rng.random() < 0.5 else from_list(rng, "NAMES", "", held)


def a_city(rng, held):
    return invented(rng) if not held and rng.random() < 0.4 else from_list(rng, "CITIES", "", held)


# ---- facts -------------------------------------------------------------------------------------


def weather_sentence(lang, when, state):
    if when == "today":
        return f"Today's weather is so {state}."
    return {"en": f"The weather {when} is so {state}.", "pt": f"O tempo {when} está {state}."}[lang]


def weather(rng, lang, held):
    when, state = rng.choice(list(W.WEATHER[lang].items()))
    return pair(ask(rng, "weather", lang, held, when=when), weather_sentence(lang, when, state))


def cap(text):
    return text[0].upper() + text[1:]


def a_thing(rng, lang):
    the, noun, colour, how = rng.choice(W.THINGS[lang])
    return {"the": the, "The": cap(the), "thing": noun}, colour, how


IS = {"en": "is", "pt": "é"}


def colour(rng, lang, held):
    t, col, _ = a_thing(rng, lang)
    return pair(ask(rng, "colour", lang, held, **t), f"{t['The']} {t['thing']} {IS[lang]} {col}.")


def describe(rng, lang, held):
    t, _, how = a_thing(rng, lang)
    return pair(ask(rng, "describe", lang, held, **t), f"{t['The']} {t['thing']} {IS[lang]} {how}.")


def yesno(rng, lang, held):
    t, col, _ = a_thing(rng, lang)
    other = rng.choice(W.COLOURS[lang])
    if lang == "pt" and t["the"] == "a":
        other = W.FEMININE.get(other, other)
    said = col if rng.random() < 0.5 else other
    word = {"en": ("No", "Yes"), "pt": ("Não", "Sim")}[lang][said == col]
    return pair(
        ask(rng, "yesno", lang, held, colour=said, **t),
        f"{word}, {t['the']} {t['thing']} {IS[lang]} {col}.",
    )


def opposite(rng, lang, held):
    x, y = rng.choice(W.OPPOSITES[lang])
    if rng.random() < 0.5:
        x, y = y, x
    say = {"en": "The opposite of {} is {}.", "pt": "O contrário de {} é {}."}[lang]
    return pair(ask(rng, "opposite", lang, held, x=x), say.format(x, y))


def capital(rng, lang, held):
    x, y = rng.choice(W.CAPITALS[lang])
    say = {"en": "The capital of {} is {}.", "pt": "A capital {} é {}."}[lang]
    return pair(ask(rng, "capital", lang, held, x=x), say.format(x, y))


def translate(rng, lang, held):
    en, pt = rng.choice(W.TRANSLATIONS)
    if lang == "en":
        return pair(ask(rng, "to_pt", lang, held, x=en), f'"{en}" in Portuguese is "{pt}".')
    return pair(ask(rng, "to_en", lang, held, x=pt), f'"{pt}" em inglês é "{en}".')


# ---- small arithmetic --------------------------------------------------------------------------


def held_pairs(seed, pairs, count):
    return frozenset(random.Random(seed).sample(sorted(pairs), count))


# Number pairs that no training text contains (sums: in either order).
HELD_SUMS = held_pairs(11, {(a, b) for a in range(2, 21) for b in range(a, 21)}, 12)
HELD_DIFFS = held_pairs(12, {(a, b) for a in range(4, 21) for b in range(1, a)}, 12)


def number_pair(rng, op, new, low=0, high=20):
    """Two numbers for the operation; new: from the pairs kept out of training."""
    if op == "*":
        return rng.randint(0, 10), rng.randint(0, 10)
    if new:
        a, b = rng.choice(sorted(HELD_SUMS if op == "+" else HELD_DIFFS))
        return (a, b) if op == "-" or rng.random() < 0.5 else (b, a)
    while True:
        a, b = rng.randint(low, high), rng.randint(low, high)
        if op == "-" and a < b:
            a, b = b, a
        if not ((min(a, b), max(a, b)) in HELD_SUMS if op == "+" else (a, b) in HELD_DIFFS):
            return a, b


def arithmetic(name, op, new=False):
    def task(rng, lang, held):
        a, b = number_pair(rng, op, new)
        c = {"+": a + b, "-": a - b, "*": a * b}[op]
        spell = W.NUMBERS[lang] if rng.random() < 0.15 else None
        text = ask(rng, name, lang, held, a=spell[a] if spell else a, b=spell[b] if spell else b)
        return pair(text, f"{a} {op} {b} = {c}.")

    return task


def story(rng, lang, held):
    op = rng.choice("+-")
    a, b = number_pair(rng, op, False, 1, 12)
    c = a + b if op == "+" else a - b
    name, items = a_name(rng, held), from_list(rng, "COUNTABLE", lang, held)
    text = ask(
        rng,
        "story_more" if op == "+" else "story_less",
        lang,
        held,
        name=name,
        a=a,
        b=b,
        items=items,
    )
    return pair(text, f"{name} {'has' if lang == 'en' else 'tem'} {a} {op} {b} = {c} {items}.")


# ---- lists -------------------------------------------------------------------------------------

GROUP_ARTICLE = {
    "dias da semana": "os",
    "meses do ano": "os",
    "cores do arco-íris": "as",
    "estações do ano": "as",
    "planetas": "os",
    "vogais": "as",
}
FORMS = {
    "en": ["", "", " as bullets", " as a JSON array"],
    "pt": ["", "", " em tópicos", " em um array JSON"],
}


def lists(rng, lang, held):
    group, values = rng.choice(list(W.LISTS[lang].items()))
    form = rng.choice(FORMS[lang])
    if "JSON" in form:
        answer = json.dumps(values, ensure_ascii=False)
    elif form:
        answer = "\n".join("- " + v for v in values)
    else:
        answer = ", ".join(values) + "."
    return pair(
        ask(rng, "list", lang, held, the=GROUP_ARTICLE.get(group), group=group, form=form), answer
    )


def count(rng, lang, held):
    a = rng.randint(0, 20)
    b = a + rng.randint(2, 10)
    return pair(ask(rng, "count", lang, held, a=a, b=b), ", ".join(map(str, range(a, b + 1))) + ".")


def neighbour(rng, lang, held):
    groups = list(W.LISTS[lang].values())
    values = rng.choice([groups[0], groups[1], groups[5], [str(i) for i in range(40)]])
    way = rng.choice(["after", "before"])
    step = 1 if way == "after" else -1
    wraps = values is groups[0] or values is groups[1]
    i = rng.randrange(len(values)) if wraps else rng.randrange(1, len(values) - 1)
    x, y = values[i], values[(i + step) % len(values)]
    say = {"en": "{} {} comes {}.", "pt": "{} {} vem {}."}[lang]
    word = {
        "en": {"after": "After", "before": "Before"},
        "pt": {"after": "Depois de", "before": "Antes de"},
    }[lang][way]
    return pair(ask(rng, way, lang, held, x=x), say.format(word, x, y))


# ---- talk --------------------------------------------------------------------------------------


def fixed(name, answers):
    def task(rng, lang, held):
        return pair(ask(rng, name, lang, held), answers[lang])

    return task


identity = fixed(
    "identity",
    {
        "en": "I am Mirim, a small language model that comes with Mutirão.",
        "pt": "Eu sou Mirim, um pequeno modelo de linguagem que vem com o Mutirão.",
    },
)
greeting = fixed("greeting", {"en": "Hello! How can I help?", "pt": "Olá! Como posso ajudar?"})
thanks = fixed("thanks", {"en": "You are welcome!", "pt": "De nada!"})
unknown = fixed(
    "unknown",
    {
        "en": "I am a small model and do not know that.",
        "pt": "Sou um modelo pequeno e não sei isso.",
    },
)


def memory(rng, lang, held):
    """A name told, perhaps something between, the name asked."""
    if rng.random() < 0.15 and not held:
        return pair(
            ask(rng, "ask_name", lang, held),
            {"en": "You have not told me your name.", "pt": "Você ainda não me disse o seu nome."}[
                lang
            ],
        )
    name = a_name(rng, held)
    meet = {"en": f"Nice to meet you, {name}!", "pt": f"Prazer, {name}!"}[lang]
    told = pair(expand(rng, rng.choice(PHRASES["my_name"][lang][held]), name=name), meet)
    between = rng.choice([colour, arithmetic("sum", "+"), opposite])(rng, lang, False)
    recall = {"en": f"Your name is {name}.", "pt": f"Seu nome é {name}."}[lang]
    return (
        told
        + (between if rng.random() < 0.5 else [])
        + pair(ask(rng, "ask_name", lang, held), recall)
    )


def repeat(rng, lang, held):
    """Words said again: teaches to copy."""
    known = [w[lang == "pt"] for w in W.TRANSLATIONS] + W.NUMBERS[lang]
    said = [
        rng.choice(known) if held or rng.random() < 0.4 else invented(rng).lower()
        for _ in range(rng.randint(1, 4))
    ]
    if rng.random() < 0.3:
        said[0] = a_name(rng, held)
    text = " ".join(said)
    if rng.random() < 0.3:
        return pair(ask(rng, "quote", lang, held, x=text), f'"{text}"')
    return pair(ask(rng, "repeat", lang, held, x=text), text)


def echo(rng):
    """A long line of words said again, or put into a JSON array: copying and nothing else."""
    words = W.NAMES + W.NAMES + W.NUMBERS["en"] + W.NUMBERS["pt"]
    words += [w for pair_ in W.TRANSLATIONS for w in pair_]
    said = [
        rng.choice(words) if rng.random() < 0.5 else invented(rng)
        for _ in range(rng.randint(3, 12))
    ]
    said = [str(rng.randint(0, 99)) if rng.random() < 0.1 else w for w in said]
    lang = rng.choice(["en", "pt"])
    if rng.random() < 0.4:
        order = {"en": "As a JSON array: ", "pt": "Como array JSON: "}[lang]
        return pair(order + ", ".join(said), json.dumps(said, ensure_ascii=False))
    text = " ".join(said)
    return pair(expand(rng, rng.choice(PHRASES["repeat"][lang][0]), x=text), text)


# ---- JSON records ------------------------------------------------------------------------------


def record(keys, values):
    return json.dumps(dict(zip(keys, values)), ensure_ascii=False)


def person(rng, lang, held):
    name, age, city = a_name(rng, held), rng.randint(5, 99), a_city(rng, held)
    keys = {"en": ("name", "age", "city"), "pt": ("nome", "idade", "cidade")}[lang]
    return pair(
        ask(rng, "person", lang, held, name=name, age=age, city=city),
        record(keys, (name, age, city)),
    )


def worker(rng, lang, held):
    name, job = a_name(rng, held), from_list(rng, "JOBS", lang, held)
    keys = {"en": ("name", "job"), "pt": ("nome", "trabalho")}[lang]
    return pair(ask(rng, "worker", lang, held, name=name, job=job), record(keys, (name, job)))


def stock(rng, lang, held):
    item, price, n = from_list(rng, "ITEMS", lang, held), rng.randint(1, 60), rng.randint(2, 90)
    keys = {"en": ("item", "price", "quantity"), "pt": ("item", "preço", "quantidade")}[lang]
    return pair(
        ask(rng, "stock", lang, held, item=item, price=price, n=n), record(keys, (item, price, n))
    )


def json_record(rng, lang, held):
    return rng.choice([person, person, worker, stock])(rng, lang, held)


# ---- tools -------------------------------------------------------------------------------------


def schema(name, description, **params):
    kinds = {k: {"type": v} for k, v in params.items()}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": kinds, "required": list(params)},
        },
    }


DESCRIPTIONS = {
    "get_weather": {
        "en": ["Get the weather of a city", "The weather now", "Current weather for a place"],
        "pt": ["Vê o tempo em uma cidade", "O tempo agora", "Tempo atual de um lugar"],
    },
    "get_time": {
        "en": ["Get the local time of a city", "The time now"],
        "pt": ["Vê a hora local de uma cidade", "A hora agora"],
    },
    "set_timer": {
        "en": ["Set a timer", "Start a timer"],
        "pt": ["Marca um timer", "Começa um timer"],
    },
    "calculate": {
        "en": ["Calculate an expression", "A calculator"],
        "pt": ["Calcula uma expressão", "Uma calculadora"],
    },
}


def plain(text):
    """Letters without accents, for a function's name."""
    return unicodedata.normalize("NFD", text).encode("ascii", "ignore").decode()


def use_of_tool(rng, kind, lang, held):
    """(question, schema, arguments, tool's result, final answer) for one call."""
    city, n = a_city(rng, held), rng.randint(1, 60)
    key = "city" if held or rng.random() < 0.5 else rng.choice(W.PLACE_KEYS)
    en = lang == "en"
    text = rng.choice(DESCRIPTIONS[kind][lang]) if kind in DESCRIPTIONS else ""
    if kind == "get_weather":
        t, sky = rng.randint(1, 40), rng.choice(W.SKIES[lang])
        return (
            ask(rng, kind, lang, held, city=city),
            schema(kind, text, **{key: "string"}),
            {key: city},
            {"temperature": t, "sky": sky},
            (
                f"In {city} it is {t} degrees and {sky}."
                if en
                else f"Em {city} faz {t} graus e o céu está {sky}."
            ),
        )
    if kind == "get_time":
        clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
        return (
            ask(rng, kind, lang, held, city=city),
            schema(kind, text, **{key: "string"}),
            {key: city},
            {"time": clock},
            f"In {city} it is {clock}." if en else f"Em {city} são {clock}.",
        )
    if kind == "set_timer":
        return (
            ask(rng, kind, lang, held, n=n),
            schema(kind, text, minutes="integer"),
            {"minutes": n},
            {"ok": True},
            f"The timer is set for {n} minutes." if en else f"O timer toca em {n} minutos.",
        )
    if kind == "calculate":
        a, b, op = rng.randint(31, 999), rng.randint(31, 999), rng.choice("+-*")
        c = {"+": a + b, "-": a - b, "*": a * b}[op]
        sum_ = f"{a} {op} {b}"
        return (
            ask(rng, kind, lang, held, a=a, b=b, op=op),
            schema(kind, text, expression="string"),
            {"expression": sum_},
            {"result": c},
            f"{sum_} = {c}.",
        )
    x, value = from_list(rng, "MEASURES", lang, held), rng.randint(2, 9999)
    return (
        ask(rng, "get_measure", lang, held, x=x, city=city),
        schema("get_" + plain(x), x, **{key: "string"}),
        {key: city},
        {"result": value},
        f"{cap(x)} in {city}: {value}." if en else f"{cap(x)} em {city}: {value}.",
    )


KINDS = ["get_weather", "get_time", "set_timer", "calculate", "get_measure"]


def other_tools(rng, kind, lang, held):
    """Up to two more tools beside the wanted one."""
    rest = rng.sample([k for k in KINDS if k != kind], rng.choice([0, 0, 0, 1, 1, 2]))
    return [use_of_tool(rng, k, lang, held)[1] for k in rest]


def call(name, arguments):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def tool_chat(rng, lang, held, answered):
    """-> (tools, messages): a question, the call it needs, and (answered) result and reply."""
    kind = rng.choice(["get_weather", *KINDS])
    question, tool, arguments, result, answer = use_of_tool(rng, kind, lang, held)
    tools = [tool, *other_tools(rng, kind, lang, held)]
    rng.shuffle(tools)
    messages = [{"role": "user", "content": question}, call(tool["function"]["name"], arguments)]
    if answered:
        messages += [
            {"role": "tool", "content": json.dumps(result, ensure_ascii=False)},
            {"role": "assistant", "content": answer},
        ]
    return tools, messages


def no_tool(rng, lang, held):
    """Asked for what only a tool could know, without that tool."""
    kind, city = rng.choice(["get_weather", "get_time"]), a_city(rng, held)
    what = {
        "get_weather": {"en": "weather", "pt": "o tempo"},
        "get_time": {"en": "time", "pt": "a hora"},
    }[kind][lang]
    return pair(
        ask(rng, kind, lang, held, city=city),
        {
            "en": f"I have no tool to see the {what} in {city}.",
            "pt": f"Não tenho ferramenta para ver {what} em {city}.",
        }[lang],
    )


# ---- raw documents -----------------------------------------------------------------------------


def opening(rng, lang, held):
    """-> (prompt, continuation) of a sentence about the weather or a thing."""
    if rng.random() < 0.4:
        when, state = rng.choice(list(W.WEATHER[lang].items()))
        if when == "today" and not held and rng.random() < 0.5:
            return "Today's weather is so", f" {state}."
        fill, s, templates = (
            {"when": when, "When": cap(when)},
            state,
            OPENINGS["weather"][lang][held],
        )
    else:
        fill, _, s = a_thing(rng, lang)
        templates = OPENINGS["thing"][lang][held]
    text = expand(rng, rng.choice(templates), s="\0", **fill)
    return text[: text.index(" \0")], f" {s}."


def sentence(rng, lang):
    """One sentence of a training document."""
    if rng.random() < 0.6:
        return "".join(opening(rng, lang, False))
    task = rng.choice(
        [
            colour,
            opposite,
            capital,
            lists,
            count,
            arithmetic("sum", "+"),
            arithmetic("product", "*"),
            json_record,
            neighbour,
        ]
    )
    return task(rng, lang, False)[-1]["content"]


def document(rng, lang):
    return " ".join(sentence(rng, lang) for _ in range(rng.choice([1, 1, 1, 2, 3])))


# task: (function, (weight in the first cycle of training, in the second)): what is hard comes later.
CHAT_TASKS = {
    "weather": (weather, (4, 2)),
    "colour": (colour, (4, 3)),
    "describe": (describe, (3, 3)),
    "yes or no": (yesno, (4, 9)),
    "sum": (arithmetic("sum", "+"), (8, 14)),
    "difference": (arithmetic("difference", "-"), (7, 13)),
    "product": (arithmetic("product", "*"), (5, 9)),
    "story": (story, (5, 9)),
    "list": (lists, (5, 2)),
    "count": (count, (3, 4)),
    "neighbour": (neighbour, (6, 3)),
    "opposite": (opposite, (4, 3)),
    "capital": (capital, (3, 2)),
    "translate": (translate, (5, 6)),
    "identity": (identity, (2, 1)),
    "greeting": (greeting, (1, 1)),
    "thanks": (thanks, (1, 1)),
    "name memory": (memory, (4, 6)),
    "repeat": (repeat, (8, 5)),
    "unknown": (unknown, (3, 5)),
    "JSON record": (json_record, (10, 12)),
    "no tool": (no_tool, (3, 5)),
}
