#!/usr/bin/env python3
"""Small tokenizers, one for each feature of tokenizer.json, with what the Hugging Face tokenizers library makes of them.
usage: generate_small_tokenizers.py OUT.json      (tokenizers 0.23.3)
Models are trained without pre-tokenizer, so that merges cross spaces and every cut shows in the ids."""
import copy, json, sys
from tokenizers import Tokenizer, models, trainers

TEXTS = ["", " ", "hello", "hello world", "  hello   world ", "Hello, World! It's 10 o'clock.", "a-b--c", "x1y22z333",
         "O coração não é tão difícil", "e\u0301te\u0301 ﬁn Å ½", "İstanbul ŞIŞ straße", "line\nnew\r\n\n  end\n",
         "<s>hi</s> there<s> </s>", "word<m>word", "a <m> b", "a <m>b", "<m>", "  <l>  x  <r>  y ", "<l><r>", "x<w>y <w> z<w>",
         "<a><b>", "<a> <b>", "▁x▁▁y", "tab\tand\u00a0nbsp\u3000wide", "日本語 text", "😀 ok 👩‍💻", "ééé", "...!!!???", "a.b c.d",
         "the the the the", "123 456", "__init__ x_y", "'s 'S it's", " \n x", "\u180e mongolian", "A\u0300\u0301B", "Σίσυφος ΟΔΟΣ"]
CORPUS = ["hello world hello world the the the", "it's the end of the line", "o coração não é tão difícil", "word word 10 22 333",
          "a-b--c a.b c.d", "x y z , . ! ?", "  spaces   here  and   there  ", "text and text and text", "été ééé"] * 20
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
NAMES = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def char_model(unknown):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    m = json.loads(t.to_str())["model"]
    if unknown == "bytes":
        for b in range(256): m["vocab"]["<0x%02X>" % b] = len(m["vocab"])
        m["byte_fallback"] = True
    if unknown == "none": m["unk_token"] = None
    return m


def byte_model():
    symbol = {}; n = 0
    for b in range(256):
        if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b <= 0xFF: symbol[b] = chr(b)
        else: symbol[b] = chr(0x100 + n); n += 1
    m = json.loads(Tokenizer(models.BPE()).to_str())["model"]
    m["vocab"] = {symbol[b]: b for b in range(256)}
    spell = lambda s: "".join(symbol[b] for b in s.encode())
    m["merges"] = []
    for a, b in [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), (" ", "w"), ("o", "r"), (" w", "or"), ("o", " w"), ("'", "s"), (" ", " "), ("  ", "  "),
                 ("1", "0"), ("2", "2"), ("t", "h"), ("th", "e"), (" ", "the"), ("the", " "), ("\n", "\n"), ("é", "é"), ("!", "!"), (".", ".")]:
        for x in (a, b):
            if spell(x) not in m["vocab"]:   # a character of several bytes: its own merge first
                s = spell(x); m["vocab"][s] = len(m["vocab"]); m["merges"].append([s[0], s[1:]])
        m["merges"].append([spell(a), spell(b)]); m["vocab"].setdefault(spell(a + b), len(m["vocab"]))
    m["vocab"][spell("world")] = len(m["vocab"])   # a whole word that no merge makes
    return m


def added(content, id, **f):
    return dict(dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True), **f)


SEQ = lambda key, *x: dict(type="Sequence", **{key: list(x)})
REPLACE = lambda pattern, content: dict(type="Replace", pattern=pattern, content=content)
PREPEND = dict(type="Prepend", prepend="▁"); MARK = REPLACE(dict(String=" "), "▁")
BYTES = lambda prefix=False, regex=True: dict(type="ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=regex)
SPLIT = lambda pattern, behavior, invert=False: dict(type="Split", pattern=pattern, behavior=behavior, invert=invert)
TEMPLATE = lambda before, after: dict(type="TemplateProcessing", single=[{"SpecialToken": {"id": s, "type_id": 0}} for s in before] + [{"Sequence": {"id": "A", "type_id": 0}}]
                                      + [{"SpecialToken": {"id": s, "type_id": 0}} for s in after], pair=[{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                      special_tokens={s: {"id": s, "ids": [dict([("<s>", 1), ("</s>", 2)])[s]], "tokens": [s]} for s in ("<s>", "</s>")})
LLAMA_DECODER = SEQ("decoders", REPLACE(dict(String="▁"), " "), dict(type="ByteFallback"), dict(type="Fuse"), dict(type="Strip", content=" ", start=1, stop=0))


def cases():
    c = []
    add = lambda name, model="unk", options=None, **parts: c.append(dict(name=name, model=model, options=options or {}, **parts))
    for f in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"): add("normalizer " + f, normalizer=dict(type=f))
    add("accents", normalizer=SEQ("normalizers", dict(type="NFD"), dict(type="StripAccents"), dict(type="Lowercase")))
    for l, r in ((True, True), (True, False), (False, True)): add("strip %d%d" % (l, r), normalizer=dict(type="Strip", strip_left=l, strip_right=r))
    add("prepend, replace", "bytes", normalizer=SEQ("normalizers", PREPEND, MARK), decoder=LLAMA_DECODER)
    for p, w in ((r"\s+", " "), (r"[aeiou]", ""), (r"\w*", "X"), (r"^", ">"), (r"(?i:the)", "<>")): add("replace " + p, normalizer=REPLACE(dict(Regex=p), w))
    add("replace by nothing", normalizer=REPLACE(dict(String="l"), ""))
    for b in NAMES:
        for inv in (False, True):
            add("split %s %d" % (b, inv), pre_tokenizer=SPLIT(dict(Regex=r"\s|-"), b, inv))
            add("split string %s %d" % (b, inv), pre_tokenizer=SPLIT(dict(String=" "), b, inv))
    for p in (r"\w+", r"[^\w\s]+", r"\h+", r"\W", r"\S+", r"\d", r"(?=o)", r"^.", r".$", r"[a-y]+", r"\bw"):
        add("pattern " + p, pre_tokenizer=SPLIT(dict(Regex=p), "Isolated"))
    for d in (True, False): add("digits %d" % d, pre_tokenizer=dict(type="Digits", individual_digits=d))
    add("white space", pre_tokenizer=dict(type="WhitespaceSplit")); add("delimiter", pre_tokenizer=dict(type="CharDelimiterSplit", delimiter="o"))
    for s in ("always", "first", "never"):
        for split in (True, False):
            m = dict(type="Metaspace", replacement="▁", prepend_scheme=s, split=split); add("metaspace %s %d" % (s, split), "bytes", pre_tokenizer=m, decoder=m)
    add("metaspace after split", pre_tokenizer=SEQ("pretokenizers", SPLIT(dict(String="-"), "Isolated"), dict(type="Metaspace", replacement="▁", prepend_scheme="first", split=True)))
    for p in (True, False):
        for r in (True, False): add("byte level %d%d" % (p, r), "byte", pre_tokenizer=BYTES(p, r), decoder=BYTES())
    add("digits, byte level with a space", "byte", pre_tokenizer=SEQ("pretokenizers", dict(type="Digits", individual_digits=True), BYTES(True)), decoder=BYTES())
    add("ignore merges", "byte", dict(ignore_merges=True), pre_tokenizer=BYTES(), decoder=BYTES())
    for u in ("unk", "none", "bytes"):
        for f in (True, False): add("unknown %s, fused %d" % (u, f), u, dict(fuse_unk=f))
    tokens = [added("<m>", 900), added("<l>", 901, lstrip=True), added("<r>", 902, rstrip=True), added("<w>", 903, single_word=True), added("<a>", 904, special=False),
              added("<a><b>", 905), added("hello", 906, special=False, normalized=True), added("Wor", 907, normalized=True)]
    # decoding gives the normalized spelling of a normalized added token in this version of the library, in others the file's: not compared
    add("added tokens", added_tokens=tokens); add("added, lower case", compare_decoded=False, normalizer=dict(type="Lowercase"), added_tokens=tokens)
    add("added, prepend", "bytes", compare_decoded=False, normalizer=SEQ("normalizers", PREPEND, MARK), added_tokens=tokens, decoder=LLAMA_DECODER)
    add("added, metaspace first", "bytes", pre_tokenizer=dict(type="Metaspace", replacement="▁", prepend_scheme="first", split=True), added_tokens=tokens)
    add("template", post_processor=TEMPLATE(["<s>"], ["</s>"]))
    for p in ("RobertaProcessing", "BertProcessing"): add(p, post_processor=dict(type=p, sep=["</s>", 2], cls=["<s>", 1], trim_offsets=True, add_prefix_space=False))
    add("decoder none"); add("decoder fuse", decoder=dict(type="Fuse"))
    # not both at once: the library panics on a token that is one space
    for start, stop in ((1, 0), (0, 1)): add("decoder strip %d %d" % (start, stop), decoder=dict(type="Strip", content=" ", start=start, stop=stop))
    add("decoder strip late", "bytes", decoder=SEQ("decoders", dict(type="ByteFallback"), dict(type="Fuse"), REPLACE(dict(String="l"), "L"), dict(type="Strip", content="h", start=2, stop=0)))
    add("decoder byte level, strip", "byte", pre_tokenizer=BYTES(), decoder=SEQ("decoders", BYTES(), dict(type="Strip", content=" ", start=2, stop=0)))
    return c


def main(out):
    m = {"unk": char_model("unk"), "none": char_model("none"), "bytes": char_model("bytes"), "byte": byte_model()}
    base_added = [added("<unk>", 0), added("<s>", 1), added("</s>", 2)]
    rows = []
    for c in cases():
        spec = dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None)
        spec.update(copy.deepcopy({k: v for k, v in c.items() if k in spec}))
        if c["model"] != "byte": spec["added_tokens"] = base_added + spec["added_tokens"]
        spec["model"] = dict(m[c["model"]], **c["options"])
        n = len(spec["model"]["vocab"])   # ids of added tokens follow the vocabulary, as the library counts them
        for i, a in enumerate(x for x in spec["added_tokens"] if x["id"] >= 900): a["id"] = n + i
        t = Tokenizer.from_str(json.dumps(spec)); got = []
        for text in TEXTS:
            t.encode_special_tokens = False
            e = t.encode(text, add_special_tokens=False).ids; s = t.encode(text).ids
            t.encode_special_tokens = True; p = t.encode(text, add_special_tokens=False).ids
            row = dict(text=text, ids=e, decoded=t.decode(e, skip_special_tokens=False))
            if s != e: row["ids_special"] = s
            if p != e: row["ids_noparse"] = p
            skip = t.decode(e, skip_special_tokens=True)
            if skip != row["decoded"]: row["decoded_skip"] = skip
            if not c.get("compare_decoded", True): row["decoded"] = row["decoded_skip"] = None
            got.append(row)
        spec["model"] = c["model"]
        rows.append(dict(name=c["name"], options=c["options"], spec=json.loads(json.dumps(spec)), cases=got))
    with open(out, "w", encoding="utf-8") as f:
        f.write('{"models":' + json.dumps(m, ensure_ascii=False, separators=(",", ":")) + ',\n"tokenizers":[\n')
        f.write(",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "\n]}\n")
    print(len(rows), "tokenizers,", sum(len(r["cases"]) for r in rows), "cases")


if __name__ == "__main__": main(sys.argv[1])
