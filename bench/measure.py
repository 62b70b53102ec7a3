#!/usr/bin/env python3
"""Runs the benchmarks and appends what they measured to a file, one JSON object a line; report.py makes pages of it.

usage: measure.py --out FILE --dir DIR [--build build] [--peers DIR] [--quick] [--turns N] [--types TYPE ...]
       [--only EXPERIMENT ...] [--prompt N] [--generate N] [--synth OPTIONS]

Models of random weights are written into DIR by build/bench/synth and removed after use. Engines take turns, one
invocation for each sample and every other turn backwards (A B C C B A), so that what slows the machine for a while
slows all of them. Peers that are not there (bench/peers says how to get them) are left out.
"""
import argparse, contextlib, datetime, glob, json, os, platform, re, shutil, socket, subprocess, sys, time

from targets import PLAIN_SUMS

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {  # options of synth
    "1.1B": [],
    "1.1B, 32 KV heads": ["--kv-heads", "32"],
    "1.1B, 1 KV head": ["--kv-heads", "1"],
    "1.1B, 128k ids": ["--vocab", "128256"],
    "135M": "--hidden 576 --layers 30 --heads 9 --kv-heads 3 --ffn 1536 --vocab 49152".split(),
    "mirim": "--hidden 192 --layers 4 --heads 6 --kv-heads 2 --ffn 512 --vocab 1024".split(),
}
TIMEOUT_S = 1800


def first_line(command):
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return (out.stdout or out.stderr).strip().split("\n")[0]
    except (OSError, subprocess.TimeoutExpired):
        return "not there"


def read(path):
    try:
        return open(path).read().strip()
    except OSError:
        return ""


def describe_machine():
    cpu = {}
    for line in first_and_all(["lscpu"]):
        key, _, value = line.partition(":")
        cpu[key.strip()] = value.strip()
    flags = cpu.get("Flags", "").split()
    wanted = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
              "amx_int8", "amx_bf16", "asimddp", "i8mm", "sve")
    return dict(cpu=cpu.get("Model name", platform.machine()), family=cpu.get("CPU family", ""),
                model=cpu.get("Model", ""), cores=os.cpu_count(), isa=[f for f in wanted if f in flags],
                caches={k: cpu[k] for k in ("L1d cache", "L2 cache", "L3 cache") if k in cpu},
                numa=cpu.get("NUMA node(s)", ""), virtual=cpu.get("Hypervisor vendor", "no"),
                memory=read("/proc/meminfo").split("\n")[0].split(":")[-1].strip(),
                huge_pages=read("/sys/kernel/mm/transparent_hugepage/enabled"), kernel=platform.release(),
                compiler=first_line([os.environ.get("CC", "cc"), "--version"]), mpi=first_line(["mpirun", "--version"]),
                load=os.getloadavg()[0], date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))


def first_and_all(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.split("\n")
    except OSError:
        return []


class Bench:
    def __init__(self, args):
        self.args, self.out = args, open(args.out, "a")
        self.failed = []  # runs of ours; a peer may fail
        self.mutirao = os.path.join(args.build, "bin/mutirao")
        self.plain = os.path.join(args.build, "plain-sums/mutirao")
        self.synth = os.path.join(args.build, "bench/synth")
        self.commit = first_line(["git", "-C", HERE, "describe", "--always", "--dirty"])
        if args.synth: SHAPES["1.1B"] = args.synth.split()
        self.llama = os.path.join(args.peers, "build/bin")
        self.python = os.path.join(args.peers, "venv/bin/python")
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_rmaps_base_oversubscribe="1")
        if not shutil.which("ssh") and not shutil.which("rsh"): self.env["OMPI_MCA_plm"] = "isolated"
        self.machine, self.peers = describe_machine(), {}
        if os.path.exists(self.llama + "/llama-bench"):
            self.peers["llama.cpp"] = read(os.path.join(args.peers, "llama.version")) or "unknown version"
        if os.path.exists(self.python):
            got = first_line([self.python, "-c", "import torch, transformers as t; "
                              "print('torch', torch.__version__, 'transformers', t.__version__)"])
            if got.startswith("torch"): self.peers["torch"] = got
        self.xft_home, self.iomp = os.path.join(args.peers, "xft"), ""
        library = glob.glob(self.xft_home + "/lib/python3*/site-packages/xfastertransformer/libiomp5.so")
        if library:
            self.iomp = library[0]
            self.peers["xFasterTransformer"] = read(os.path.join(args.peers, "xft.version"))

    def write(self, **record):
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()

    def say(self, text):
        print(time.strftime("%H:%M:%S "), text, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def model(self, shape, kind):
        path = os.path.join(self.args.dir, "model.gguf")
        self.say("writing %s, %s" % (shape, kind))
        subprocess.run([self.synth, "--out", path, "--type", kind] + SHAPES[shape], check=True)
        try:
            yield dict(shape=shape, type=kind, path=path)
        finally:
            os.remove(path)

    # ---- engines: each is a function that runs once and returns (record's keys, result), or None ----

    def run(self, command, **env):
        """Standard output, or None with the reason said."""
        try:
            out = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(self.env, **env))
        except subprocess.TimeoutExpired:
            self.say("no answer in %d s: %s" % (TIMEOUT_S, " ".join(command)))
            return None
        if out.returncode == 0: return out.stdout
        self.say("failed: %s: %s" % (" ".join(command), " / ".join(t.strip()[-150:] for t in (out.stdout, out.stderr))))
        return None

    def run_ours(self, command, model, keys):
        out = self.run(command)
        if not out:
            self.failed.append("%s %s %d x %d" % (keys["engine"], model["type"], keys["ranks"], keys["threads"]))
        return out

    def ours(self, model, ranks, threads, options=None, variant="", plain=False):
        if plain and not os.path.exists(self.plain): return None
        if not options: options = "--prompt %d --generate %d" % (self.args.prompt, self.args.generate)
        keys = dict(engine=PLAIN_SUMS if plain else "mutirao", ranks=ranks, threads=threads, variant=variant)
        command = [self.plain if plain else self.mutirao, "bench", "-m", model["path"], "-n", str(ranks), "-t",
                   str(threads), "--repeat", "1", "--json"] + options.split()
        if variant == "int8": command += ["--activations", "int8"]

        def go():
            out = self.run_ours(command, model, keys)
            return out and (keys, json.loads(out))
        return go

    def loading(self, model, ranks, threads):
        """bench/load prints, in GB/s a rank: load 1.00; memcpy 2.00 into new memory (load is 50 %), 3.00 into used."""
        keys = dict(engine="mutirao", ranks=ranks, threads=threads, variant="")
        command = [os.path.join(self.args.build, "bench/load"), model["path"], str(threads), "3"]
        if ranks > 1: command = ["mpirun", "--bind-to", "none", "-n", str(ranks)] + command

        def go():
            out = self.run_ours(command, model, keys)
            if not out: return None
            rates = re.search(r"median +load +([\d.]+); memcpy +([\d.]+) .*, +([\d.]+) into used", out).groups()
            return keys, dict(zip(("load_gb_per_s", "copy_gb_per_s", "copy_used_gb_per_s"), map(float, rates)))
        return go

    def llama_bench(self, model, threads, prompt=0, generate=0, depth=0, more=(), variant=""):
        """Its two tests, each in a run of its own: it would decode from an empty cache, not after the prompt."""
        if not prompt and not generate: prompt, generate = self.args.prompt, self.args.generate
        keys = dict(engine="llama.cpp", ranks=2 if variant else 1, threads=threads, variant=variant)
        command = [self.llama + "/llama-bench", "-m", model["path"], "-t", str(threads), "-r", "1", "-o", "json",
                   "--no-host", "1"] + list(more)
        tests = [("prefill_tokens_per_s", ["-p", str(prompt), "-n", "0"])] if prompt else []
        if generate:
            tests.append(("decode_tokens_per_s", ["-p", "0", "-n", str(generate), "-d", str(prompt or depth)]))

        def go():
            result = {"prompt": prompt or depth}
            for rate, options in tests:
                out = self.run(command + options)
                if not out: return None
                result[rate] = json.loads(out)[0]["avg_ts"]
            return keys, result
        return go if "llama.cpp" in self.peers else None

    def llama_batches(self, model, threads, batches, prompt, generate):
        keys = dict(engine="llama.cpp", ranks=1, threads=threads, variant="")
        room = max(batches) * (-(-(prompt + generate) // 256) * 256)  # the cache of each sequence is cut to 256
        command = [self.llama + "/llama-batched-bench", "-m", model["path"], "-t", str(threads), "-c", str(room),
                   "-npp", str(prompt), "-ntg", str(generate), "-npl", ",".join(map(str, batches)),
                   "--output-format", "jsonl"]

        def go():
            out = self.run(command)
            rows = [json.loads(line) for line in (out or "").split("\n") if line.startswith("{")]
            return rows and (keys, {"batches": [
                dict(batch=r["pl"], ttft_s=r["t_pp"], ttft_last_s=r["t_pp"], decode_tokens_per_s=r["speed_tg"],
                     stream_tokens_per_s=r["speed_tg"] / r["pl"]) for r in rows]})
        return go if "llama.cpp" in self.peers and os.path.exists(command[0]) else None

    def llama_rpc(self, model, split):
        """Two servers of one thread each, cut by layer or by tensor."""
        ports = (50561, 50562)
        more = ["-ngl", "99", "-sm", split, "-rpc", ",".join("127.0.0.1:%d" % p for p in ports)]
        cell = self.llama_bench(model, 1, more=more, variant="RPC by " + split)

        def go():
            servers = [subprocess.Popen([self.llama + "/ggml-rpc-server", "-t", "1", "-p", str(p)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for p in ports]
            try:
                for p in ports: wait_for_port(p)
                return cell()
            finally:
                for s in servers:
                    s.kill()
                    s.wait()
        return go if cell and os.path.exists(self.llama + "/ggml-rpc-server") else None

    def torch(self, kind, threads):
        keys = dict(engine="torch", ranks=1, threads=threads, variant="")
        command = [self.python, os.path.join(HERE, "peer_torch.py"), kind, str(threads), str(self.args.prompt),
                   str(self.args.generate)]

        def go():
            out = self.run(command)
            return out and (keys, json.loads(out))
        return go if "torch" in self.peers and kind in ("F32", "BF16") else None

    def xft(self, kind, ranks, threads):
        keys = dict(engine="xFasterTransformer", ranks=ranks, threads=threads, variant="")
        programs = self.xft_home + "/bin"
        command = [programs + "/python", os.path.join(HERE, "peer_xft.py"), kind, str(self.args.prompt),
                   str(self.args.generate)]
        env = dict(OMP_NUM_THREADS=str(threads), LD_PRELOAD=self.iomp, XFT_FAKE_MODEL="1")
        if ranks > 1:  # its own MPI, which finds its parts by these
            command = [programs + "/mpirun", "-n", str(ranks)] + command
            env.update(PATH=programs + ":" + self.env["PATH"], LD_LIBRARY_PATH=self.xft_home + "/lib")

        def go():
            out = self.run(command, **env)
            found = re.findall(r"^\{.*\}$", out or "", re.M)
            return found and (keys, json.loads(found[-1]))
        there = "xFasterTransformer" in self.peers and os.path.exists(command[0])
        return go if there and kind in ("BF16", "F16", "Q8_0") else None

    def interleave(self, experiment, model, cells, repeats):
        cells = [c for c in cells if c]
        repeats = self.args.turns or repeats
        for i in range(repeats):
            for cell in list(cells)[::-1 if i % 2 else 1]:
                got = cell()
                if not got:
                    cells.remove(cell)  # what fails once is not tried again
                    continue
                keys, result = got
                self.write(experiment=experiment, shape=model["shape"], type=model["type"], cycle=i, **keys,
                           commit=self.commit, date=self.machine["date"], result=result)
            self.say("%s, %s, %s: %d of %d" % (experiment, model["shape"], model["type"], i + 1, repeats))

    # ---- experiments ----

    def types(self):
        """Prefill and decode by weight type, engine, threads and ranks; here are most of the targets."""
        kinds = self.args.types or (["Q4_0"] if self.args.quick else ["Q4_0", "Q8_0", "Q4_K", "BF16", "F16", "F32"])
        for kind in kinds:
            with self.model("1.1B", kind) as m:
                cells = [self.ours(m, 1, 1), self.llama_bench(m, 1), self.ours(m, 1, 2), self.llama_bench(m, 2),
                         self.ours(m, 2, 1), self.torch(kind, 2), self.xft(kind, 1, 1), self.xft(kind, 1, 2),
                         self.xft(kind, 2, 1)]
                if kind[0] == "Q": cells += [self.ours(m, 1, 1, variant="int8")]
                self.interleave("types", m, cells, 3 if self.args.quick else 5)

    def ranks(self):
        """Engines on 2 ranks of one thread, and more ranks than cores."""
        with self.model("1.1B", "Q4_0") as m:
            cells = [self.ours(m, 2, 1), self.llama_rpc(m, "layer"), self.llama_rpc(m, "tensor"), self.ours(m, 3, 1),
                     self.ours(m, 4, 1)]
            self.interleave("ranks", m, cells, 3)

    def exactness(self):
        """What exact sums cost: a build with plain f32 sums beside the program."""
        for kind in self.args.types or ("Q4_0", "Q8_0"):
            with self.model("1.1B", kind) as m:
                cells = [self.ours(m, ranks, 1, plain=plain) for ranks in (1, 2) for plain in (False, True)]
                self.interleave("exactness", m, cells, 7)

    def load(self):
        """From the page cache into packed weights, beside memcpy."""
        for kind in self.args.types or ("Q4_0", "F32"):
            with self.model("1.1B", kind) as m:
                self.interleave("load", m, [self.loading(m, *at) for at in ((1, 1), (1, 2), (2, 1))], 3)

    def context(self):
        """A long prompt, and decode behind it; the same with other numbers of KV heads."""
        length = 8192
        for shape in ("1.1B", "1.1B, 32 KV heads", "1.1B, 1 KV head"):
            with self.model(shape, "Q4_0") as m:
                cells = [self.ours(m, 1, 2, "--prompt %d --generate 32" % length), self.ours(m, 1, 2)]
                if shape == "1.1B":
                    cells += [self.llama_bench(m, 2, length, 0), self.llama_bench(m, 2, 0, 32, depth=length)]
                self.interleave("context", m, cells, 2)

    def batch(self):
        """Sequences that decode together."""
        some = "1,16" if self.args.quick else "1,2,4,8,16,32,64"
        theirs = (1, 16) if self.args.quick else (1, 4, 16)
        with self.model("1.1B", "Q8_0") as m:
            options = "--batch %s --prompt 64 --generate 16" % some
            cells = [self.ours(m, 1, 2, options), self.ours(m, 1, 2, options, "int8"),
                     self.llama_batches(m, 2, theirs, 64, 16)]
            self.interleave("batch", m, cells, 2 if self.args.quick else 3)

    def shapes(self):
        """Long in, short out, and the other way round."""
        with self.model("1.1B", "Q4_0") as m:
            self.interleave("shapes", m, [self.ours(m, 1, 2, "--shapes 5000:1,10000:1,1:500,1:1000")], 2)

    def host(self):
        """What is not the model's pass: 128k ids, top-p 0.9."""
        with self.model("1.1B, 128k ids", "Q4_0") as m:
            self.interleave("host", m, [self.ours(m, 1, 2, "--prompt 128 --generate 32 --temperature 0.8 --top-p 0.9")],
                            2 if self.args.quick else 3)

    def small(self):
        """Small models, where barriers dominate."""
        for shape, kind, n in (("135M", "Q8_0", 128), ("mirim", "BF16", 1024)):
            with self.model(shape, kind) as m:
                cells = [self.ours(m, 1, 2, "--prompt 128 --generate %d" % n), self.llama_bench(m, 2, 128, n)]
                self.interleave("small", m, cells, 3 if self.args.quick else 5)

    def collectives(self):
        """The exchange alone."""
        with self.model("mirim", "BF16") as m:
            self.interleave("collectives", m, [self.ours(m, 2, 1, "--collectives")], 3)

    def all(self):
        quick = ("types", "batch", "host", "small", "collectives")
        every = ("types", "ranks", "exactness", "load", "context", "batch", "shapes", "host", "small", "collectives")
        for name in self.args.only or (quick if self.args.quick else every): getattr(self, name)()


def wait_for_port(port):
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", required=True)
    p.add_argument("--dir", required=True)
    p.add_argument("--build", default="build")
    p.add_argument("--peers", default="")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--turns", type=int, default=0, help="of each experiment, instead of 2 to 7")
    p.add_argument("--types", nargs="*", default=[], help="of the experiments types, exactness and load")
    p.add_argument("--only", nargs="*", default=[])
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--generate", type=int, default=32)
    p.add_argument("--synth", default="", help="options of synth in place of the 1.1B shape, to try the scripts")
    args = p.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    free = shutil.disk_usage(args.dir).free
    if free < 6e9: sys.exit("measure.py: %s has %.1f GB left; a model needs up to 5" % (args.dir, free / 1e9))
    b = Bench(args)
    b.write(machine=b.machine, peers=b.peers, quick=args.quick)
    b.all()
    if b.failed: sys.exit("measure.py: Mutirão itself failed: " + "; ".join(b.failed))


if __name__ == "__main__": main()
