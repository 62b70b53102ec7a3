"""compare.py DIR [TEXT-FILE]: called by run. Prints a table; exit status 1 if the ids' counts differ."""
import gzip, json, os, random, subprocess, sys, time
from tokenizers import Tokenizer

DATA = "tests/data/tokenizers"


def make_text(path):
    """Sentences, lists, code and other scripts from the vectors, the shorter ones, in random order: 2 MB of lines."""
    rows = [json.loads(l) for l in open(DATA + "/smollm2.jsonl", encoding="utf-8").read().split("\n") if l]
    kinds = ("english", "portuguese", "code", "zh", "ja", "mix")
    pool = [r["text"] for r in rows if r["id"].split("-")[0] in kinds and r.get("text")]
    pool += [t for t in pool if t.isascii()] * 3
    r = random.Random(7); out = []; n = 0
    while n < 2_000_000:
        s = " ".join(r.choice(pool) for _ in range(r.randint(1, 4))).replace("\n", " "); out.append(s); n += len(s.encode()) + 1
    open(path, "w", encoding="utf-8").write("\n".join(out))


def ours(build, model, text, how):
    o = subprocess.run([build + "/encode", model, text, how, "5"], capture_output=True, text=True, check=True).stdout.split()
    return int(o[1]), float(o[2])


def theirs(tok, text, how):
    data = open(text, encoding="utf-8", newline="").read(); parts = data.split("\n") if how == "lines" else [data]; best = 1e9
    for _ in range(3):
        start = time.process_time(); n = sum(len(tok.encode(p, add_special_tokens=False).ids) for p in parts)
        best = min(best, time.process_time() - start)
    return n, best


def main(build, text=None):
    if not text: text = build + "/text.txt"; make_text(text)
    size = os.path.getsize(text); bad = 0
    print("%d bytes; MB/s of processor time, one thread\n%-14s %-6s %9s %9s %7s" % (size, "tokenizer", "text", "mutirao", "hf", "ratio"))
    for name in ("smollm2", "qwen3", "mistral7b_v1"):
        model = "%s/%s" % (build, name); os.makedirs(model, exist_ok=True)
        open(model + "/tokenizer.json", "wb").write(gzip.open("%s/files/%s/tokenizer.json.gz" % (DATA, name)).read())
        tok = Tokenizer.from_file(model + "/tokenizer.json")
        for how in ("lines", "whole"):
            n, a = ours(build, model, text, how); m, b = theirs(tok, text, how)
            print("%-14s %-6s %9.1f %9.1f %6.1fx%s" % (name, how, size / a / 1e6, size / b / 1e6, b / a, "" if n == m else "   ids differ: %d %d" % (n, m)))
            bad |= n != m
    return int(bad)


if __name__ == "__main__": sys.exit(main(*sys.argv[1:]))
