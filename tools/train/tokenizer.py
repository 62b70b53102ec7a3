"""The tokenizer: byte-level BPE with 1,024 entries, made with the `tokenizers` library."""

import json
import os

import jinja2
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = [END_OF_TEXT, IM_START, IM_END]
MARKS = ["<tool_call>", "</tool_call>"]  # single tokens, but text: they show when decoded
VOCABULARY = 1024


def build_tokenizer(texts):
    """Digits stand alone, all 256 bytes are in the vocabulary; merges are learnt from `texts`."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    marks = [AddedToken(m, special=False, normalized=False) for m in MARKS]
    special = [AddedToken(s, special=True, normalized=False) for s in SPECIAL]
    tok.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            min_frequency=2,
            special_tokens=special + marks,
            show_progress=False,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        ),
    )
    # The trainer marks all of them special; the tool marks are made plain again.
    data = json.loads(tok.to_str())
    for entry in data["added_tokens"]:
        entry["special"] = entry["content"] in SPECIAL
    return Tokenizer.from_str(json.dumps(data))


def chat_template():
    with open(os.path.join(HERE, "chat_template.jinja"), encoding="utf-8") as f:
        return f.read().rstrip("\n")


def chat_renderer():
    """-> render(messages, tools=None, add_generation_prompt=False), as transformers renders."""
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    template = env.from_string(chat_template())

    def render(messages, tools=None, add_generation_prompt=False):
        return template.render(
            messages=messages, tools=tools, add_generation_prompt=add_generation_prompt
        )

    return render


def save_tokenizer(tok, folder, context):
    tok.save(os.path.join(folder, "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": END_OF_TEXT,
        "eos_token": IM_END,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "added_tokens_decoder": {
            str(tok.token_to_id(s)): {
                "content": s,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": s in SPECIAL,
            }
            for s in SPECIAL + MARKS
        },
        "chat_template": chat_template(),
    }
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2, ensure_ascii=False)
        f.write("\n")
