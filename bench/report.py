#!/usr/bin/env python3
"""Makes a report of what measure.py measured, or compares it with earlier reports.

usage: report.py SAMPLES DIR [SUFFIX]             writes DIR/<date>-<cpu><SUFFIX>.md, .csv and .svg
       report.py SAMPLES --check PERCENT CSV ...  compares with the last report in the list that is of this CPU: exit
                                                  status 1 if a ratio is worse by more than PERCENT; where none is of
                                                  this CPU, with the last of all, and then worse is no failure
       report.py SAMPLES --print                  Markdown of the targets that were measured, to standard output
"""
import csv, math, os, statistics, sys

from targets import Samples, cpu_name, lines, summary

FIELDS = "kind name value low high samples op target met".split()
METRICS = """prefill_tokens_per_s decode_tokens_per_s bandwidth_share peak_share prefill_collective_share
    decode_collective_share read_bandwidth_bytes_per_s peak_fma_operations_per_s peak_dot_operations_per_s
    load_gb_per_s copy_gb_per_s copy_used_gb_per_s""".split()


def figures(s):
    for (experiment, shape, kind, engine, ranks, threads, variant), results in s.cells.items():
        for prompt in sorted({r.get("prompt", "") for r in results}, key=str):
            for metric in METRICS:
                got = summary([r[metric] for r in results if metric in r and r.get("prompt", "") == prompt])
                parts = (experiment, shape, kind, engine, "%dx%d" % (ranks, threads), variant, prompt, metric)
                name = "/".join(str(x) for x in parts if x != "")
                if got: yield dict(zip(FIELDS, ("figure", name) + got + ("", "", "")))


# ---- tables ------------------------------------------------------------------------------------------

def table(head, rows):
    if not rows: return "Not measured.\n"
    out = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |"]
    return "\n".join(out + ["| " + " | ".join(str(c) for c in r) + " |" for r in rows]) + "\n"


def number(v, digits=2):
    return "–" if v is None else "%.*f" % (digits, v)


def spread(a, digits=1):
    return "–" if not a else "%.*f (%.*f–%.*f)" % (digits, statistics.median(a), digits, min(a), digits, max(a))


def percent(a):
    return number(statistics.median(a) * 100, 0) if a else ""


def called(engine, variant):
    return engine + (variant and ", " + variant)


def machine_table(s):
    m = s.machine
    virtual = "" if m["virtual"] == "no" else ", virtual: " + m["virtual"]
    rows = [("CPU", "%s (family %s, model %s), %s cores%s" % (m["cpu"], m["family"], m["model"], m["cores"], virtual)),
            ("instruction sets", " ".join(m["isa"])),
            ("caches", ", ".join("%s %s" % c for c in m["caches"].items())),
            ("memory", "%s, NUMA nodes: %s, huge pages: %s" % (m["memory"], m["numa"], m["huge_pages"])),
            ("kernel", m["kernel"]),
            ("compiler, MPI", m["compiler"] + "; " + m["mpi"]),
            ("load before", number(m["load"]))]
    rows += [("Mutirão " + commit, "%s: %s" % (date, ", ".join(experiments)))
             for (commit, date), experiments in s.commits.items()]
    return table(["machine", ""], rows + [("peer " + name, version) for name, version in s.peers.items()])


def target_table(targets):
    rows = []
    for t in targets:
        got = "–" if t["value"] is None else "%.3f (%.3f–%.3f)" % (t["value"], t["low"], t["high"])
        asked = "%s %s" % ("≥" if t["op"] == ">=" else "≤", t["target"])
        rows.append((t["text"], asked, got, t["samples"] or "", t["met"] or "not measured"))
    return table(["what", "asked", "measured", "n", "met"], rows)


def speed_table(s, experiments):
    """Prefill and decode of every engine; what only Mutirão tells of itself is empty for others."""
    rows = []
    for (experiment, shape, kind, engine, ranks, threads, variant), results in s.cells.items():
        if experiment not in experiments: continue
        for prompt in sorted({r.get("prompt", 0) for r in results}):
            some = [r for r in results if r.get("prompt", 0) == prompt]
            of = lambda metric: [r[metric] for r in some if metric in r]
            sums = [percent(of(phase + "_collective_share")) for phase in ("prefill", "decode")]
            kv = of("kv_bytes_per_token")
            rows.append((shape, kind, called(engine, variant), "%d × %d" % (ranks, threads), prompt or "", len(some),
                         spread(of("prefill_tokens_per_s")), percent(of("peak_share")),
                         spread(of("decode_tokens_per_s")), percent(of("bandwidth_share")),
                         " / ".join(filter(None, sums)) if ranks > 1 else "",
                         number(statistics.median(kv) / 1e6) if kv else ""))
    return table(["model", "type", "engine", "ranks × threads", "prompt", "n", "prefill tokens/s", "% of peak",
                  "decode tokens/s", "% of bandwidth", "% in sums", "KV MB read a token"], rows)


def load_table(s):
    rows = []
    for (experiment, _, kind, _, ranks, threads, _), results in s.cells.items():
        if experiment != "load": continue
        of = lambda metric: [r[metric] for r in results]
        load = statistics.median(of("load_gb_per_s"))
        share = lambda metric: number(100 * load / statistics.median(of(metric)), 0)
        rows.append((kind, "%d × %d" % (ranks, threads), len(results), spread(of("load_gb_per_s"), 2),
                     spread(of("copy_gb_per_s"), 2), share("copy_gb_per_s"), spread(of("copy_used_gb_per_s"), 2),
                     share("copy_used_gb_per_s")))
    return table(["type", "ranks × threads", "n", "load GB/s a rank", "memcpy into new memory", "load, % of it",
                  "memcpy into used memory", "load, % of it"], rows)


def list_table(s, experiment, name, columns):
    """Rows of the lists that --batch and --shapes print: medians of the columns (head, key or function, digits)."""
    rows = []
    for (at, _, kind, engine, ranks, threads, variant), results in s.cells.items():
        if at != experiment: continue
        for i in range(len(results[0][name])):
            of = lambda c: statistics.median(c(r[name][i]) if callable(c) else r[name][i][c] for r in results)
            rows.append((kind, called(engine, variant), len(results)) + tuple(number(of(c), d) for _, c, d in columns))
    return table(["type", "engine", "n"] + [head for head, _, _ in columns], rows)


BATCH_COLUMNS = (
    ("batch", "batch", 0),
    ("TTFT s", "ttft_s", 3),
    ("last TTFT s", "ttft_last_s", 3),
    ("tokens/s of one", "stream_tokens_per_s", 2),
    ("tokens/s of all", "decode_tokens_per_s", 2))
SHAPE_COLUMNS = (
    ("in", "prompt", 0),
    ("out", "generate", 0),
    ("prefill s", "prefill_s", 2),
    ("decode s", "decode_s", 2),
    ("decode %", lambda x: 100 * x["decode_s"] / (x["prefill_s"] + x["decode_s"]), 1),
    ("ms a token out", lambda x: 1e3 * x["decode_s"] / x["generate"], 2))


def write_markdown(s, path, targets, plot):
    note = "Medians; in brackets the range over the turns, of which there were n.\n\n"
    sections = (
        ("Targets", note + target_table(targets)),
        ("By type, threads and ranks", speed_table(s, ("types", "ranks")) + plot),
        ("What exact sums cost", speed_table(s, ("exactness",))),
        ("Loading", load_table(s)),
        ("Long contexts, and what fewer KV heads save", speed_table(s, ("context",))),
        ("Small models", speed_table(s, ("small", "host"))),
        ("What doubling the batch buys and costs", list_table(s, "batch", "batches", BATCH_COLUMNS)),
        ("Where the time of a request goes", list_table(s, "shapes", "shapes", SHAPE_COLUMNS)))
    with open(path, "w", encoding="utf-8") as f:
        f.write("# Benchmarks of %s\n\nWritten by `make bench`; [README.md](README.md) says how to read it.\n\n"
                % s.machine["date"])
        f.write(machine_table(s))
        for title, text in sections: f.write("\n## %s\n\n%s" % (title, text))


# ---- the roofline ------------------------------------------------------------------------------------

def roofline_points(s):
    """(name, operations a byte, operations a second) of Mutirão's runs on 2 threads."""
    for (experiment, shape, kind, engine, ranks, threads, variant), results in s.cells.items():
        if (engine, shape, ranks, threads, variant) != ("mutirao", "1.1B", 1, 2, ""): continue
        prompt = max(r.get("prompt", 0) for r in results)  # of long contexts the longest; the others have one
        some = sorted((r for r in results if r.get("prompt", 0) == prompt), key=lambda r: r.get("decode_tokens_per_s", 0))
        median = some[len(some) // 2]
        label = {"types": kind, "context": "%s at %s" % (kind, prompt)}.get(experiment)
        runs = [("%s × %d" % (kind, b["batch"]), b) for b in median.get("batches", [])]
        for name, r in [(label, median)] if label else runs:
            if "decode_fma_operations_per_token" not in r: continue
            ops = r["decode_fma_operations_per_token"] + r["decode_dot_operations_per_token"]
            read = r["weight_bytes_per_token"] + r["kv_bytes_per_token"]
            yield name, ops / read, ops * r["decode_tokens_per_s"]
            ops = r["prefill_fma_operations"] + r["prefill_dot_operations"]
            if experiment == "types": yield name + " prefill", ops / r["prefill_weight_bytes"], ops / r["prefill_s"]


class Plot:
    """Logarithmic axes of whole decades: operations a byte to the right, operations a second upwards."""
    WIDTH, HEIGHT, MARGIN = 900, 600, 60

    def __init__(self, left, right, bottom, top):
        self.left, self.right, self.bottom, self.top = left, right, bottom, top
        size = 'viewBox="0 0 %d %d"' % (self.WIDTH, self.HEIGHT)
        self.out = ['<svg xmlns="http://www.w3.org/2000/svg" %s font-family="sans-serif" font-size="12">' % size,
                    '<rect width="100%" height="100%" fill="white"/>']

    def x(self, v):
        part = (math.log10(v) - self.left) / (self.right - self.left)
        return self.MARGIN + part * (self.WIDTH - 2 * self.MARGIN)

    def y(self, v):
        part = (math.log10(v) - self.bottom) / (self.top - self.bottom)
        return self.HEIGHT - self.MARGIN - part * (self.HEIGHT - 2 * self.MARGIN)

    def line(self, x0, y0, x1, y1, style):
        ends = (self.x(x0), self.y(y0), self.x(x1), self.y(y1))
        self.out.append('<path d="M%.1f %.1fL%.1f %.1f" fill="none" %s/>' % (ends + (style,)))

    def text(self, x, y, what, more=""):
        self.out.append('<text x="%.1f" y="%.1f" %s>%s</text>' % (x, y, more, what))

    def grid(self):
        for e in range(self.left, self.right + 1):
            self.line(10 ** e, 10 ** self.bottom, 10 ** e, 10 ** self.top, 'stroke="#ddd"')
            self.text(self.x(10 ** e), self.HEIGHT - self.MARGIN + 18, "%g" % 10 ** e, 'text-anchor="middle"')
        for e in range(self.bottom, self.top + 1):
            self.line(10 ** self.left, 10 ** e, 10 ** self.right, 10 ** e, 'stroke="#ddd"')
            self.text(self.MARGIN - 6, self.y(10 ** e) + 4, "%g" % 10 ** (e - 9), 'text-anchor="end"')
        self.text(self.WIDTH / 2, self.HEIGHT - 14, "operations a byte read", 'text-anchor="middle"')
        self.text(self.MARGIN, self.MARGIN - 30,
                  "10⁹ operations a second (an activation of 16 bits counts as two bytes) on 2 threads")

    def limits(self, band, fma, dot):
        style = 'stroke="#444" stroke-width="2"'
        self.line(10 ** self.left, band * 10 ** self.left, dot / band, dot, style)
        self.text(self.x(1.5 * 10 ** self.left) + 12, self.y(1.5 * band * 10 ** self.left) + 6,
                  "memory: %.1f GB/s" % (band / 1e9))
        for peak, name in ((fma, "f32 multiply-adds"), (dot, "integer dot products")):
            self.line(peak / band, peak, 10 ** self.right, peak, style)
            self.text(self.WIDTH - self.MARGIN, self.y(peak) - 6, "%s: %.0f" % (name, peak / 1e9), 'text-anchor="end"')

    def point(self, name, ops_per_byte, ops_per_s, lower):
        x, y = self.x(ops_per_byte), self.y(ops_per_s)
        colour = "#c33" if "prefill" in name else "#36c" if "×" in name else "#393"
        self.out.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (x, y, colour))
        side, anchor = (-6, "end") if x > self.WIDTH - 2 * self.MARGIN else (6, "start")
        self.text(x + side, y + 12 * lower, name, 'fill="%s" font-size="10" text-anchor="%s"' % (colour, anchor))


def write_svg(s, path):
    """Where limits and points were measured; False elsewhere."""
    limits = [r for key, results in s.cells.items() if key[1] == "1.1B" and key[3:6] == ("mutirao", 1, 2)
              for r in results if "read_bandwidth_bytes_per_s" in r]
    points = list(roofline_points(s))
    if not limits or not points: return False
    keys = ("read_bandwidth_bytes_per_s", "peak_fma_operations_per_s", "peak_dot_operations_per_s")
    band, fma, dot = (statistics.median(r[key] for r in limits) for key in keys)
    left = math.floor(math.log10(min(p[1] for p in points)))
    right = math.ceil(math.log10(max([p[1] for p in points] + [dot / band * 2])))
    bottom = math.floor(math.log10(min([p[2] for p in points] + [band * 10 ** left])))
    plot = Plot(left, right, bottom, math.ceil(math.log10(dot)))
    plot.grid()
    plot.limits(band, fma, dot)
    for i, point in enumerate(points): plot.point(*point, lower=i % 2)
    with open(path, "w", encoding="utf-8") as f: f.write("\n".join(plot.out + ["</svg>"]) + "\n")
    return True


# ---- comparing with earlier reports ------------------------------------------------------------------

def last_report(s, paths):
    """The last of this CPU, else of all, and whether it is of this CPU."""
    of = lambda path: os.path.basename(path)[len("YYYY-MM-DD-"):].removesuffix(".csv")
    ours = [p for p in paths if of(p) == cpu_name(s.machine)]
    return max(ours or paths, key=os.path.basename), bool(ours)


def check(s, percent, paths):
    """Prints each ratio that is in both. Worse is what lost more than the allowance, and whose best turn lost too."""
    path, same = last_report(s, paths)
    with open(path, encoding="utf-8") as f:
        before = {r["name"]: float(r["value"]) for r in csv.DictReader(f) if r["kind"] == "ratio" and r["value"]}
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
    if not compared: return 1
    if not same: print("That is another CPU (this one is %s): no failure." % cpu_name(s.machine))
    return 1 if worse and same else 0


# ---- all ---------------------------------------------------------------------------------------------

def write(s, folder, suffix):
    name = "%s-%s%s" % (s.machine["date"], cpu_name(s.machine), suffix)
    prefix = os.path.join(folder, name)
    targets = list(lines(s))
    with open(prefix + ".csv", "w", encoding="utf-8", newline="") as f:
        w = csv.DictWriter(f, FIELDS, extrasaction="ignore", lineterminator="\n")
        w.writeheader()
        for row in targets + list(figures(s)):
            w.writerow({k: "%.6g" % v if isinstance(v, float) else v for k, v in row.items()})
    plot = "\n![roofline](%s.svg)\n" % name if write_svg(s, prefix + ".svg") else ""
    write_markdown(s, prefix + ".md", targets, plot)
    met = [t["met"] for t in targets]
    print("%s.md: %d targets met, %d not met, %d not measured"
          % (prefix, met.count("yes"), met.count("no"), met.count("")))
    return 0


def main(args):
    if len(args) < 2: sys.exit(__doc__)
    try:
        s = Samples(args[0])
    except ValueError as e:
        sys.exit("report.py: %s: %s" % (args[0], e))
    if args[1] == "--print":
        print(target_table([t for t in lines(s) if t["met"]]), end="")
        return 0
    if args[1] == "--check" and len(args) > 3: return check(s, float(args[2]), args[3:])
    if args[1].startswith("--") or len(args) > 3: sys.exit(__doc__)
    return write(s, args[1], args[2] if len(args) > 2 else "")


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
