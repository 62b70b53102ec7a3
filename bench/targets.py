"""The samples that measure.py wrote, and what is asked of them: every target is one line of the report."""
import collections, json, re, statistics

PREFILL, DECODE = "prefill_tokens_per_s", "decode_tokens_per_s"
Target = collections.namedtuple("Target", "name text got op limit")


# ---- samples -------------------------------------------------------------------------------------

class Samples:
    """Results by (experiment, shape, type, engine, ranks, threads, variant); each with its turn: (number of the run that
    measured it, its turn in that run)."""

    def __init__(self, path):
        self.machine, self.peers = {}, {}  # of the last run; what earlier ones found is kept
        self.commits = {}  # (commit, date): the experiments whose samples it made
        self.cells = collections.defaultdict(list)
        run = 0
        for line in open(path, encoding="utf-8"):
            r = json.loads(line)
            if "machine" in r:
                self.take_machine(r["machine"])
                self.peers.update(r["peers"])
                run += 1
                continue
            experiments = self.commits.setdefault((r["commit"], r["date"]), [])
            if r["experiment"] not in experiments: experiments.append(r["experiment"])
            key = tuple(r[k] for k in "experiment shape type engine ranks threads variant".split())
            self.cells[key].append(dict(r["result"], turn=(run, r["cycle"])))

    def take_machine(self, machine):
        if self.machine and cpu_name(machine) != cpu_name(self.machine):
            raise ValueError("samples of two CPUs, %s and %s" % (cpu_name(self.machine), cpu_name(machine)))
        self.machine = machine

    def get(self, metric, experiment, kind, engine="mutirao", ranks=1, threads=1, variant="", shape="1.1B"):
        """A metric (a key, or a function of a result) by turn, where it was measured."""
        out = {}
        for result in self.cells.get((experiment, shape, kind, engine, ranks, threads, variant), []):
            try:
                out[result["turn"]] = metric(result) if callable(metric) else result[metric]
            except (KeyError, IndexError, StopIteration):
                pass
        return out


def cpu_name(machine):
    """The CPU as a part of file names. Virtual machines give CPUs of several generations one model name, so family and
    model are in it."""
    words = re.findall("[a-z0-9]+", re.sub(r"\([^)]*\)", "", machine["cpu"].lower()))  # Intel(R) is intel
    numbers = [letter + machine[key] for letter, key in (("f", "family"), ("m", "model")) if machine[key]]
    return "-".join(words + numbers)


# ---- values by turn ------------------------------------------------------------------------------

def summary(values):
    """(median, low, high, samples), or None."""
    return (statistics.median(values), min(values), max(values), len(values)) if values else None


def ratio(a, b):
    """a / b, turn by turn: what disturbs the machine for a while disturbs both. Turns that lack one are left out."""
    return {turn: a[turn] / b[turn] for turn in a if turn in b}


def against(s, engine, rate, theirs={}, **at):
    """Mutirão's rate over an engine's, at the same place but for what `theirs` says."""
    return ratio(s.get(rate, **at), s.get(rate, **{**at, "engine": engine, **theirs}))


def at_least(limit, name, text, got):
    return Target(name, text, got, ">=", limit)


def at_most(limit, name, text, got):
    return Target(name, text, got, "<=", limit)


# ---- one process ---------------------------------------------------------------------------------

def decode_targets(s):
    kinds = (  # least share of the read bandwidth, least ratio to llama.cpp
        ("F32", 0.90, 1.05),
        ("BF16", 0.90, 1.3),
        ("Q8_0", 0.90, 1.8),
        ("Q4_0", 0.85, 2.1),
        ("Q4_K", 0.85, None))
    for kind, share, least in kinds:
        for threads in (1, 2):
            at = dict(experiment="types", kind=kind, threads=threads)
            name, text = "decode/%s/1x%d" % (kind, threads), "decode %s, 1 × %d: " % (kind, threads)
            yield at_least(share, name + "/bandwidth", text + "share of the read bandwidth",
                           s.get("bandwidth_share", **at))
            if least:
                yield at_least(least, name + "/llama.cpp", text + "× llama.cpp", against(s, "llama.cpp", DECODE, **at))


def prefill_targets(s):
    for kind, share in (("F32", 0.75), ("BF16", 0.75), ("Q8_0", 0.60), ("Q4_0", 0.60)):
        yield at_least(share, "prefill/%s/peak" % kind,
                       "prefill of 512, %s, 1 × 1: share of the instructions' peak" % kind,
                       s.get("peak_share", experiment="types", kind=kind))
    peers = (  # type, engine, threads, least ratio
        ("BF16", "xFasterTransformer", 1, 1.0),
        ("Q8_0", "xFasterTransformer", 1, 1.0),
        ("Q4_0", "llama.cpp", 1, 2.0),
        ("Q8_0", "llama.cpp", 1, 2.5),
        ("F32", "llama.cpp", 1, 1.0),
        ("F32", "torch", 2, 1.0),
        ("BF16", "llama.cpp", 1, 1.0),
        ("BF16", "torch", 2, 1.0))
    for kind, engine, threads, least in peers:
        at = dict(experiment="types", kind=kind, threads=threads)
        name, text = "prefill/%s/%s" % (kind, engine), "prefill %s, 1 × %d" % (kind, threads)
        yield at_least(least, name, "%s: × %s" % (text, engine), against(s, engine, PREFILL, **at))
        if kind[0] == "Q" and engine == "llama.cpp":
            yield at_least(2 * least, name + "/int8", "%s, int8 activations: × %s" % (text, engine),
                           against(s, engine, PREFILL, {"variant": ""}, variant="int8", **at))


def attention_cost(s):
    """Time of a long prompt beyond its matrices, over the time of attention's operations, both at the efficiency of the
    short prompt (the shorter one's own attention is counted in both)."""
    of = lambda n: s.get(lambda r: r if r["prompt"] == n else {}["no"], "context", "Q4_0", threads=2)
    out, long, short = {}, of(8192), of(512)
    for turn in long:
        if turn not in short: continue
        a, b = long[turn], short[turn]
        per_s = {k: b["peak_share"] * a["peak_%s_operations_per_s" % k] for k in ("fma", "dot")}
        matrices = a["prefill_dot_operations"] / per_s["dot"]
        out[turn] = (a["prefill_s"] - matrices) / (a["prefill_fma_operations"] / per_s["fma"])
    return out


def context_targets(s):
    share = s.get(lambda r: r["bandwidth_share"] if r["prompt"] == 8192 else {}["no"], "context", "Q4_0", threads=2)
    yield at_most(1.5, "context/8192/attention",
                  "prefill of 8,192: time of attention over its operations at the same efficiency", attention_cost(s))
    yield at_least(0.85, "context/8192/bandwidth",
                   "decode at context 8,192: share of the read bandwidth, KV bytes counted", share)


def batch_targets(s):
    for n, variant, least in ((16, "", 6), (64, "", 8), (64, "int8", 12)):
        tokens = lambda r, batch: next(b[DECODE] for b in r["batches"] if b["batch"] == batch)
        at = dict(experiment="batch", kind="Q8_0", threads=2, variant=variant)
        yield at_least(least, "batch/%d%s" % (n, variant and "/" + variant),
                       "batch of %d, Q8_0%s: tokens/s over those of one" % (n, variant and ", int8 activations"),
                       ratio(s.get(lambda r: tokens(r, n), **at), s.get(lambda r: tokens(r, 1), **at)))


def small_targets(s):
    for shape, kind in (("135M", "Q8_0"), ("mirim", "BF16")):
        yield at_least(1.3, "small/%s/llama.cpp" % shape, "decode of the %s shape: × llama.cpp" % shape,
                       against(s, "llama.cpp", DECODE, experiment="small", kind=kind, threads=2, shape=shape))


def host_share(r):
    """What tokenizing takes of a prefill, plus what all else takes of decode: a request's share lies below that,
    however much comes in and goes out."""
    return r["tokenize_s"] / r["prefill_s"] + r["host_share"]


def host_targets(s):
    of_token = lambda r, n: next(x["decode_s"] / n for x in r["shapes"] if x["generate"] == n)
    decode = lambda n: s.get(lambda r: of_token(r, n), "shapes", "Q4_0", threads=2)
    # "Linearly": the keys and values of 500 tokens more are 1 % of what a step reads; the rest of the 10 % is noise.
    yield at_most(1.1, "shapes/linear", "1 in: time of a token among 1,000 out over one among 500",
                  ratio(decode(1000), decode(500)))
    yield at_most(0.02, "host/share",
                  "tokenizing, planning, sampling (128k ids, top-p 0.9), detokenizing: share of a request, at most",
                  s.get(host_share, "host", "Q4_0", threads=2, shape="1.1B, 128k ids"))


# ---- ranks ---------------------------------------------------------------------------------------

def rank_targets(s):
    for kind in ("F32", "BF16", "Q8_0", "Q4_0"):
        peak = "peak_%s_operations_per_s" % ("dot" if kind[0] == "Q" else "fma")
        for what, rate, limit in (("decode", DECODE, "read_bandwidth_bytes_per_s"), ("prefill", PREFILL, peak)):
            of = lambda metric, ranks, threads: s.get(metric, "types", kind, ranks=ranks, threads=threads)
            name, text = "ranks/%s/%s/" % (what, kind), "%s %s: 2 × 1 over " % (what, kind)
            yield at_least(0.95, name + "cores", text + "1 × 1, over what a second core gives the machine",
                           ratio(ratio(of(rate, 2, 1), of(rate, 1, 1)), ratio(of(limit, 2, 1), of(limit, 1, 1))))
            yield at_least(0.97, name + "threads", text + "1 × 2", ratio(of(rate, 2, 1), of(rate, 1, 2)))
    for n in (3, 4):
        spent = lambda ranks: s.get(lambda r: r["prefill_s"] + r["decode_s"], "ranks", "Q4_0", ranks=ranks)
        yield at_most(1.5, "ranks/%d" % n, "%d ranks on 2 cores: time over that of 2" % n, ratio(spent(n), spent(2)))


def distributed_targets(s):
    peers = (  # experiment, type, engine, its variant, what to call it
        ("ranks", "Q4_0", "llama.cpp", "RPC by layer", "llama.cpp RPC by layer"),
        ("ranks", "Q4_0", "llama.cpp", "RPC by tensor", "llama.cpp RPC by tensor"),
        ("types", "BF16", "xFasterTransformer", "", "xFasterTransformer"),
        ("types", "Q8_0", "xFasterTransformer", "", "xFasterTransformer"),
        ("ranks", "Q4_0", "distributed-llama", "", "distributed-llama (in no registry)"))
    for experiment, kind, engine, variant, called in peers:
        for what, rate, least in (("decode", DECODE, 2.0), ("prefill", PREFILL, 1.5)):
            name = "ranks/%s/" % what + (variant.replace("RPC by ", "llama.cpp RPC/") or "%s/%s" % (engine, kind))
            yield at_least(least, name, "%s %s, 2 × 1: × %s" % (what, kind, called),
                           against(s, engine, rate, {"variant": variant}, experiment=experiment, kind=kind, ranks=2))


def collective_targets(s):
    for n in (2048, 8192):
        row = lambda r: next(c for c in r["collectives"] if c["values"] == n)
        at = lambda key: s.get(lambda r: row(r)[key], "collectives", "BF16", ranks=2, shape="mirim")
        name, text = "collectives/%d/" % n, "exact all-reduce of %d values: " % n
        yield at_most(1.5, name + "floor", text + "time over the floor",
                      ratio(at("microseconds"), at("floor_microseconds")))
        yield at_least(1.4, name + "mpi", text + "MPI_Allreduce's time over ours",
                       ratio(at("mpi_int64_microseconds"), at("microseconds")))


# ---- what the promise and the start cost ---------------------------------------------------------

def exactness_targets(s):
    for kind in ("Q4_0", "Q8_0"):
        for ranks in (1, 2):
            for what, rate, most in (("decode", DECODE, 1.05), ("prefill", PREFILL, 1.08)):
                at = dict(experiment="exactness", kind=kind, ranks=ranks)
                yield at_most(most, "exactness/%s/%s/%dx1" % (what, kind, ranks),
                              "%s %s, %d × 1: time with exact sums over that with plain f32 sums" % (what, kind, ranks),
                              ratio(s.get(rate, engine=PLAIN_SUMS, **at), s.get(rate, **at)))


PLAIN_SUMS = "mutirao with plain sums"


def load_targets(s):
    for kind in ("Q4_0", "F32"):
        for ranks, threads in ((1, 1), (1, 2), (2, 1)):
            at = dict(experiment="load", kind=kind, ranks=ranks, threads=threads)
            for name, rate in (("new", "copy_gb_per_s"), ("used", "copy_used_gb_per_s")):
                yield at_least(0.6, "load/%s/%dx%d/%s" % (kind, ranks, threads, name),
                               "loading %s from the page cache, %d × %d: speed over memcpy's into %s memory"
                               % (kind, ranks, threads, name), ratio(s.get("load_gb_per_s", **at), s.get(rate, **at)))


# ---- all -----------------------------------------------------------------------------------------

def lines(s):
    """Every target as a dict of the CSV's fields and its text; value None where it was not measured."""
    parts = (decode_targets, prefill_targets, context_targets, rank_targets, distributed_targets, batch_targets,
             host_targets, small_targets, collective_targets, exactness_targets, load_targets)
    for part in parts:
        for t in part(s):
            value, low, high, n = summary(list(t.got.values())) or (None, None, None, 0)
            met = "" if value is None else "yes" if (value >= t.limit if t.op == ">=" else value <= t.limit) else "no"
            yield dict(kind="ratio", name=t.name, value=value, low=low, high=high, samples=n, op=t.op, target=t.limit,
                       met=met, text=t.text)
