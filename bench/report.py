#!/usr/bin/env python3
"""Makes a report of what measure.py measured, or compares it with an earlier report.

usage: report.py SAMPLES OUT-PREFIX            writes OUT-PREFIX.md, .csv and .svg
       report.py SAMPLES --check CSV [PERCENT]  exit status 1 if a ratio is worse than in CSV by more than PERCENT (10)

A ratio's value is that of the medians; its spread is that of the cycles, since engines were interleaved.
"""
import collections, csv, json, math, statistics, sys

FIELDS = "kind name value low high samples op target met".split()


class Samples:
    """Records by (experiment, shape, type, engine, ranks, threads, variant)."""

    def __init__(self, path):
        self.machine, self.peers, self.cells = {}, {}, collections.defaultdict(list)
        for line in open(path, encoding="utf-8"):
            r = json.loads(line)
            if "machine" in r:
                self.machine, self.peers = r["machine"], r["peers"]
            else:
                key = tuple(r[k] for k in "experiment shape type engine ranks threads variant".split())
                self.cells[key].append(r["result"])

    def get(self, metric, experiment, kind, engine="mutirao", ranks=1, threads=1, variant="", shape="1.1B"):
        """Values of a metric (a key, or a function of a result), one a cycle; [] where it was not measured."""
        out = []
        for result in self.cells.get((experiment, shape, kind, engine, ranks, threads, variant), []):
            try:
                out.append(metric(result) if callable(metric) else result[metric])
            except (KeyError, IndexError, StopIteration):
                pass
        return out


def ratio(a, b):
    """(value, low, high, samples) of a / b, or None."""
    if not a or not b: return None
    pairs = [x / y for x, y in zip(a, b)]
    return statistics.median(a) / statistics.median(b), min(pairs), max(pairs), len(pairs)


def plain(a):
    return (statistics.median(a), min(a), max(a), len(a)) if a else None


def times(a, b):
    """A ratio divided by another one's value."""
    return a and b and tuple(v / b[0] for v in a[:3]) + (a[3],)


# ---- what is asked ------------------------------------------------------------------------------------------------------

def where(at):
    return "%d × %d" % at


def decode_targets(s):
    for kind, share, rate in (("F32", 0.90, 1.05), ("BF16", 0.90, 1.3), ("Q8_0", 0.90, 1.8), ("Q4_0", 0.85, 2.1), ("Q4_K", 0.85, None)):
        for threads in (1, 2):
            ours = dict(experiment="types", kind=kind, threads=threads)
            yield ("decode/%s/1x%d/bandwidth" % (kind, threads), "decode %s, %s: share of the read bandwidth" % (kind, where((1, threads))),
                   plain(s.get("bandwidth_share", **ours)), ">=", share)
            if rate:
                yield ("decode/%s/1x%d/llama.cpp" % (kind, threads), "decode %s, %s: × llama.cpp" % (kind, where((1, threads))),
                       ratio(s.get("decode_tokens_per_s", **ours), s.get("decode_tokens_per_s", engine="llama.cpp", **ours)), ">=", rate)


def prefill_targets(s):
    rate = "prefill_tokens_per_s"
    for kind, share in (("F32", 0.75), ("BF16", 0.75), ("Q8_0", 0.60), ("Q4_0", 0.60)):
        ours = dict(experiment="types", kind=kind)
        yield ("prefill/%s/peak" % kind, "prefill of 512, %s, 1 × 1: share of the instructions' peak" % kind,
               plain(s.get("peak_share", **ours)), ">=", share)
    for kind in ("BF16", "Q8_0"):
        ours = dict(experiment="types", kind=kind)
        yield ("prefill/%s/xFasterTransformer" % kind, "prefill %s, 1 × 1: × xFasterTransformer" % kind,
               ratio(s.get(rate, **ours), s.get(rate, engine="xFasterTransformer", **ours)), ">=", 1.0)
    for kind, least in (("Q4_0", 2.0), ("Q8_0", 2.5), ("F32", 1.0), ("BF16", 1.0)):
        ours = dict(experiment="types", kind=kind)
        theirs = s.get(rate, engine="llama.cpp", **ours)
        yield ("prefill/%s/llama.cpp" % kind, "prefill %s, 1 × 1: × llama.cpp" % kind, ratio(s.get(rate, **ours), theirs), ">=", least)
        if kind[0] == "Q":
            yield ("prefill/%s/llama.cpp/int8" % kind, "prefill %s, 1 × 1, int8 activations: × llama.cpp" % kind,
                   ratio(s.get(rate, variant="int8", **ours), theirs), ">=", 2 * least)
        else:
            ours["threads"] = 2
            yield ("prefill/%s/torch" % kind, "prefill %s, 1 × 2: × torch" % kind,
                   ratio(s.get(rate, **ours), s.get(rate, engine="torch", **ours)), ">=", 1.0)


def attention_cost(s):
    """Time of a long prompt beyond its matrices, over the time of attention's operations, both at the efficiency of the
    short prompt (the shorter one's own attention is counted in both)."""
    long, short = (s.get(lambda r: r if r["prompt"] == n else {}["no"], "context", "Q4_0", threads=2) for n in (8192, 512))
    out = []
    for a, b in zip(long, short):
        per_s = {k: b["peak_share"] * b["peak_%s_operations_per_s" % k] for k in ("fma", "dot")}
        matrices = a["prefill_dot_operations"] / per_s["dot"]
        out.append((a["prefill_s"] - matrices) / (a["prefill_fma_operations"] / per_s["fma"]))
    return plain(out)


def context_targets(s):
    yield ("context/8192/attention", "prefill of 8,192: time of attention over its operations at the same efficiency", attention_cost(s), "<=", 1.5)
    share = s.get(lambda r: r["bandwidth_share"] if r["prompt"] == 8192 else {}["no"], "context", "Q4_0", threads=2)
    yield ("context/8192/bandwidth", "decode at context 8,192: share of the read bandwidth, KV bytes counted", plain(share), ">=", 0.85)


def rank_targets(s):
    for kind in ("F32", "BF16", "Q8_0", "Q4_0"):
        one, threads, ranks = ({"experiment": "types", "kind": kind, "ranks": r, "threads": t} for r, t in ((1, 1), (1, 2), (2, 1)))
        for what, rate, limit in (("decode", "decode_tokens_per_s", "read_bandwidth_bytes_per_s"),
                                  ("prefill", "prefill_tokens_per_s", "peak_%s_operations_per_s" % ("dot" if kind[0] == "Q" else "fma"))):
            a = s.get(rate, **ranks)
            yield ("ranks/%s/%s/cores" % (what, kind), "%s %s: 2 × 1 over 1 × 1, over what a second core gives the machine" % (what, kind),
                   times(ratio(a, s.get(rate, **one)), ratio(s.get(limit, **ranks), s.get(limit, **one))), ">=", 0.95)
            yield ("ranks/%s/%s/threads" % (what, kind), "%s %s: 2 × 1 over 1 × 2" % (what, kind), ratio(a, s.get(rate, **threads)), ">=", 0.97)
    two = dict(experiment="ranks", kind="Q4_0", ranks=2)
    for split in ("layer", "tensor"):
        for what, rate, least in (("decode", "decode_tokens_per_s", 2.0), ("prefill", "prefill_tokens_per_s", 1.5)):
            yield ("ranks/%s/llama.cpp RPC/%s" % (what, split), "%s Q4_0, 2 × 1: × llama.cpp RPC by %s" % (what, split),
                   ratio(s.get(rate, **two), s.get(rate, engine="llama.cpp", variant="RPC by " + split, **two)), ">=", least)
    for n in (3, 4):
        spent = lambda r: r["prefill_s"] + r["decode_s"]
        yield ("ranks/%d" % n, "%d ranks on 2 cores: time over that of 2" % n,
               ratio(s.get(spent, "ranks", "Q4_0", ranks=n), s.get(spent, **two)), "<=", 1.5)


def at_batch(n, key="decode_tokens_per_s"):
    return lambda r: next(b[key] for b in r["batches"] if b["batch"] == n)


def batch_targets(s):
    for n, variant, least in ((16, "", 6), (64, "", 8), (64, "int8", 12)):
        all_of = lambda k: s.get(at_batch(k), "batch", "Q8_0", threads=2, variant=variant)
        yield ("batch/%d%s" % (n, "/" + variant if variant else ""), "batch of %d, Q8_0%s: tokens/s over those of one" % (n, ", int8 activations" if variant else ""),
               ratio(all_of(n), all_of(1)), ">=", least)


def other_targets(s):
    decode = lambda n: s.get(lambda r: next(x["decode_s"] / n for x in r["shapes"] if x["generate"] == n), "shapes", "Q4_0", threads=2)
    yield "shapes/linear", "1 in: time of a token among 1,000 out over one among 500", ratio(decode(1000), decode(500)), "<=", 1.1
    yield ("host/share", "planning, sampling (128k ids, top-p 0.9) and text: share of a decode step",
           plain(s.get("host_share", "host", "Q4_0", threads=2, shape="1.1B, 128k ids")), "<=", 0.02)
    for shape, kind in (("135M", "Q8_0"), ("mirim", "BF16")):
        ours = dict(metric="decode_tokens_per_s", experiment="small", kind=kind, threads=2, shape=shape)
        yield "small/%s/llama.cpp" % shape, "decode of the %s shape: × llama.cpp" % shape, ratio(s.get(**ours), s.get(engine="llama.cpp", **ours)), ">=", 1.3
    for n in (2048, 8192):
        at = lambda key: s.get(lambda r: next(c[key] for c in r["collectives"] if c["values"] == n), "collectives", "BF16", ranks=2, shape="mirim")
        yield ("collectives/%d/floor" % n, "exact all-reduce of %d values: time over the floor" % n, ratio(at("microseconds"), at("floor_microseconds")), "<=", 1.5)
        yield ("collectives/%d/mpi" % n, "exact all-reduce of %d values: MPI_Allreduce's time over ours" % n, ratio(at("mpi_int64_microseconds"), at("microseconds")), ">=", 1.4)


def lines(s):
    """Every target as a dict of the CSV's fields and its text; value None where it was not measured."""
    for part in (decode_targets, prefill_targets, context_targets, rank_targets, batch_targets, other_targets):
        for name, text, got, op, target in part(s):
            value, low, high, n = got or (None, None, None, 0)
            met = "" if value is None else "yes" if (value >= target if op == ">=" else value <= target) else "no"
            yield dict(kind="ratio", name=name, value=value, low=low, high=high, samples=n, op=op, target=target, met=met, text=text)


def figures(s):
    metrics = ("prefill_tokens_per_s", "decode_tokens_per_s", "bandwidth_share", "peak_share", "read_bandwidth_bytes_per_s",
               "peak_fma_operations_per_s", "peak_dot_operations_per_s")
    for (experiment, shape, kind, engine, ranks, threads, variant), results in s.cells.items():
        for prompt in sorted({r.get("prompt", "") for r in results}, key=str):
            for metric in metrics:
                got = plain([r[metric] for r in results if metric in r and r.get("prompt", "") == prompt])
                parts = (experiment, shape, kind, engine, "%dx%d" % (ranks, threads), variant, prompt, metric)
                if got: yield dict(zip(FIELDS, ("figure", "/".join(str(x) for x in parts if x != "")) + got + ("", "", "")))


# ---- pages --------------------------------------------------------------------------------------------------------------

def table(head, rows):
    if not rows: return "Not measured.\n"
    out = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |"]
    return "\n".join(out + ["| " + " | ".join(str(c) for c in r) + " |" for r in rows]) + "\n"


def number(v, digits=2):
    return "–" if v is None else "%.*f" % (digits, v)


def spread(a, digits=1):
    return "–" if not a else "%.*f (%.*f–%.*f)" % (digits, statistics.median(a), digits, min(a), digits, max(a))


def machine_table(s):
    m = s.machine
    rows = [("CPU", "%s (family %s, model %s), %s cores%s" % (m["cpu"], m["family"], m["model"], m["cores"], "" if m["virtual"] == "no" else ", virtual: " + m["virtual"])),
            ("instruction sets", " ".join(m["isa"])), ("caches", ", ".join("%s %s" % c for c in m["caches"].items())),
            ("memory", "%s, NUMA nodes: %s, huge pages: %s" % (m["memory"], m["numa"], m["huge_pages"])), ("kernel", m["kernel"]),
            ("compiler, MPI", m["compiler"] + "; " + m["mpi"]), ("Mutirão", m["commit"]), ("load before", m["load"])]
    return table(["machine", ""], rows + [("peer " + name, version) for name, version in s.peers.items()])


def speed_table(s, experiments):
    rows = []
    for key in s.cells:
        experiment, shape, kind, engine, ranks, threads, variant = key
        if experiment not in experiments: continue
        get = lambda metric: s.get(metric, *key[:1], key[2], engine, ranks, threads, variant, shape)
        prompts = sorted({r.get("prompt", 0) for r in s.cells[key]})
        for prompt in prompts:
            of = lambda metric: get(lambda r: r[metric] if r.get("prompt", 0) == prompt else {}["no"])
            percent = lambda metric: number(statistics.median(of(metric)) * 100, 0) if of(metric) else ""
            rows.append((shape, kind, engine + (", " + variant if variant else ""), where((ranks, threads)), prompt or "", spread(of("prefill_tokens_per_s")),
                         percent("peak_share"), spread(of("decode_tokens_per_s")), percent("bandwidth_share"),
                         number(statistics.median(of("kv_bytes_per_token")) / 1e6) if of("kv_bytes_per_token") else ""))
    return table(["model", "type", "engine", "ranks × threads", "prompt", "prefill tokens/s", "% of peak", "decode tokens/s", "% of bandwidth", "KV MB read a token"],
                 rows)


def list_rows(s, experiment, name, columns):
    """Rows of the lists that --batch and --shapes print: medians of the columns (keys or functions)."""
    rows = []
    for (at, _, kind, _, ranks, threads, variant), results in s.cells.items():
        if at != experiment: continue
        for i in range(len(results[0][name])):
            of = lambda c: statistics.median(c(r[name][i]) if callable(c) else r[name][i][c] for r in results)
            rows.append((kind + (", " + variant if variant else ""),) + tuple(number(of(c), d) for c, d in columns))
    return rows


def write_markdown(s, path, name):
    with open(path, "w", encoding="utf-8") as f:
        f.write("# Benchmarks of %s\n\nWritten by `make bench`; [README.md](README.md) says how to read it.\n\n" % s.machine["date"])
        f.write(machine_table(s) + "\n## Targets\n\nMedians; in brackets the range over the cycles.\n\n")
        rows = [(t["text"], "%s %s" % ("≥" if t["op"] == ">=" else "≤", t["target"]), "–" if t["value"] is None else
                 "%.3f (%.3f–%.3f)" % (t["value"], t["low"], t["high"]), t["met"] or "not measured") for t in lines(s)]
        f.write(table(["what", "asked", "measured", "met"], rows))
        f.write("\n## By type, threads and ranks\n\n" + speed_table(s, ("types", "ranks")))
        f.write("\n![roofline](%s.svg)\n\n## Long contexts, and what fewer KV heads save\n\n" % name + speed_table(s, ("context",)))
        f.write("\n## Small models\n\n" + speed_table(s, ("small", "host")))
        f.write("\n## What doubling the batch buys and costs\n\n" + table(
            ["type", "batch", "TTFT s", "last TTFT s", "tokens/s of one", "tokens/s of all"],
            list_rows(s, "batch", "batches", (("batch", 0), ("ttft_s", 3), ("ttft_last_s", 3), ("stream_tokens_per_s", 2), ("decode_tokens_per_s", 2)))))
        f.write("\n## Where the time of a request goes\n\n" + table(
            ["type", "in", "out", "prefill s", "decode s", "decode %", "ms a token out"],
            list_rows(s, "shapes", "shapes", (("prompt", 0), ("generate", 0), ("prefill_s", 2), ("decode_s", 2),
                                              (lambda x: 100 * x["decode_s"] / (x["prefill_s"] + x["decode_s"]), 1),
                                              (lambda x: 1e3 * x["decode_s"] / x["generate"], 2)))))


# ---- the roofline -------------------------------------------------------------------------------------------------------

def roofline_points(s):
    """(name, operations a byte, operations a second) of Mutirão's runs on 2 threads."""
    for key, results in s.cells.items():
        experiment, shape, kind, engine, ranks, threads, variant = key
        if engine != "mutirao" or shape != "1.1B" or (ranks, threads) != (1, 2) or variant: continue
        for r in sorted(results, key=lambda r: r.get("decode_tokens_per_s", 0))[len(results) // 2:][:1]:  # the median run
            label = {"types": kind, "context": kind + " at %s" % r.get("prompt")}.get(experiment)
            runs = [(label, r)] if label else [("%s × %d" % (kind, b["batch"]), b) for b in r.get("batches", [])]
            for label, x in runs:
                if "decode_fma_operations_per_token" not in x: continue
                ops = x["decode_fma_operations_per_token"] + x["decode_dot_operations_per_token"]
                yield label, ops / (x["weight_bytes_per_token"] + x["kv_bytes_per_token"]), ops * x["decode_tokens_per_s"]
                ops = x["prefill_fma_operations"] + x["prefill_dot_operations"]
                if experiment == "types": yield label + " prefill", ops / x["prefill_weight_bytes"], ops / x["prefill_s"]


def write_svg(s, path):
    limits = [r for k, results in s.cells.items() for r in results if k[3:6] == ("mutirao", 1, 2) and "read_bandwidth_bytes_per_s" in r]
    points = list(roofline_points(s))
    if not limits or not points: return False
    limit = lambda key: statistics.median(r[key] for r in limits)
    band, fma, dot = limit("read_bandwidth_bytes_per_s"), limit("peak_fma_operations_per_s"), limit("peak_dot_operations_per_s")
    left, right = math.floor(math.log10(min(p[1] for p in points))), math.ceil(math.log10(max([p[1] for p in points] + [dot / band * 2])))
    top, bottom = math.ceil(math.log10(dot)), math.floor(math.log10(min([p[2] for p in points] + [band * 10 ** left])))
    width, height, margin = 900, 600, 60
    x = lambda v: margin + (math.log10(v) - left) / (right - left) * (width - 2 * margin)
    y = lambda v: height - margin - (math.log10(v) - bottom) / (top - bottom) * (height - 2 * margin)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' % (width, height),
           '<rect width="100%" height="100%" fill="white"/>']
    line = lambda x0, y0, x1, y1, style: out.append('<path d="M%.1f %.1fL%.1f %.1f" fill="none" %s/>' % (x(x0), y(y0), x(x1), y(y1), style))
    text = lambda px, py, what, more="": out.append('<text x="%.1f" y="%.1f" %s>%s</text>' % (px, py, more, what))
    for e in range(left, right + 1):
        line(10 ** e, 10 ** bottom, 10 ** e, 10 ** top, 'stroke="#ddd"')
        text(x(10 ** e), height - margin + 18, "%g" % 10 ** e, 'text-anchor="middle"')
    for e in range(bottom, top + 1):
        line(10 ** left, 10 ** e, 10 ** right, 10 ** e, 'stroke="#ddd"')
        text(margin - 6, y(10 ** e) + 4, "%g" % 10 ** (e - 9), 'text-anchor="end"')
    text(width / 2, height - 14, "operations a byte read", 'text-anchor="middle"')
    text(margin, margin - 30, "10⁹ operations a second (an activation of 16 bits counts as two bytes) on 2 threads")
    line(10 ** left, band * 10 ** left, dot / band, dot, 'stroke="#444" stroke-width="2"')
    for peak, name in ((fma, "f32 multiply-adds"), (dot, "integer dot products")):
        line(peak / band, peak, 10 ** right, peak, 'stroke="#444" stroke-width="2"')
        text(width - margin, y(peak) - 6, "%s: %.0f" % (name, peak / 1e9), 'text-anchor="end"')
    text(x(1.5 * 10 ** left) + 12, y(1.5 * band * 10 ** left) + 6, "memory: %.1f GB/s" % (band / 1e9))
    for i, (name, ops_per_byte, ops_per_s) in enumerate(points):
        colour = "#c33" if "prefill" in name else "#36c" if "×" in name else "#393"
        out.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (x(ops_per_byte), y(ops_per_s), colour))
        side, anchor = (-6, "end") if x(ops_per_byte) > width - 2 * margin else (6, "start")
        text(x(ops_per_byte) + side, y(ops_per_s) + 12 * (i % 2), name, 'fill="%s" font-size="10" text-anchor="%s"' % (colour, anchor))
    open(path, "w", encoding="utf-8").write("\n".join(out + ["</svg>"]) + "\n")
    return True


# ---- comparing with an earlier report -----------------------------------------------------------------------------------

def check(s, path, percent):
    """Ratios that are in both; prints each. Worse is what lost more than the allowance, and whose best turn lost too."""
    before = {r["name"]: float(r["value"]) for r in csv.DictReader(open(path, encoding="utf-8")) if r["kind"] == "ratio" and r["value"]}
    allowed, compared, worse = percent / 100, 0, 0
    for t in lines(s):
        old = before.get(t["name"])
        if t["value"] is None or old is None: continue
        if t["op"] == ">=":
            bad = t["value"] < old * (1 - allowed) and t["high"] < old
        else:
            bad = t["value"] > old * (1 + allowed) and t["low"] > old
        compared, worse = compared + 1, worse + bad
        print("%-9s %-50s %8.3f, was %8.3f" % ("WORSE" if bad else "ok", t["name"], t["value"], old))
    print("%d ratios compared with %s, %d worse by more than %g %%" % (compared, path, worse, percent))
    return 1 if worse or not compared else 0


def main(args):
    if len(args) in (3, 4) and args[1] == "--check": return check(Samples(args[0]), args[2], float(args[3]) if len(args) > 3 else 10)
    if len(args) != 2: sys.exit(__doc__)
    s, prefix = Samples(args[0]), args[1]
    rows = list(lines(s))
    with open(prefix + ".csv", "w", encoding="utf-8", newline="") as f:
        w = csv.DictWriter(f, FIELDS, extrasaction="ignore", lineterminator="\n")
        w.writeheader()
        for row in rows + list(figures(s)): w.writerow({k: "%.6g" % v if isinstance(v, float) else v for k, v in row.items()})
    write_svg(s, prefix + ".svg")
    write_markdown(s, prefix + ".md", prefix.split("/")[-1])
    met = [r["met"] for r in rows]
    print("%s.md: %d targets met, %d not met, %d not measured" % (prefix, met.count("yes"), met.count("no"), met.count("")))
    return 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
