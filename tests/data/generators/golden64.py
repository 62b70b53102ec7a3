#!/usr/bin/env python3
"""Logits of the dense families in float64, in numpy alone: a second opinion on float32 transformers and on us.

usage: golden64.py MODELS_DIR OUT_DIR [NAME ...]
Reads MODELS_DIR/NAME/config.json, the weights beside it and the input_ids of golden.safetensors and golden_long.safetensors,
whichever are there; writes OUT_DIR/NAME.safetensors with `logits` f64 [T, vocab] for the first and `last_logits` [4, vocab]
for the second.  Prints the distance of float32 transformers from them.

Everything is float64: weights widened from the stored type, norms, angles, cosines, softmax, products.  One exception:
the rotation frequencies (inv_freq, rotary factors of longrope, attention factor) are rounded to float32 where transformers
rounds them, since it defines them so: with frequencies of more digits this would be another model, off by
position * 2^-25 in each angle.  The product position * frequency is exact here; float32 programs round it.
"""
import json, math, os, sys
import numpy as np

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "BF16": np.uint16}
f32 = np.float32


# ---- files ---------------------------------------------------------------------------------------------------------

def read_safetensors(path):
    raw = open(path, "rb").read()
    n = int.from_bytes(raw[:8], "little")
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__": continue
        a, b = t["data_offsets"]
        v = np.frombuffer(raw[8 + n + a:8 + n + b], TYPES[t["dtype"]]).reshape(t["shape"])
        if t["dtype"] == "BF16": v = (v.astype(np.uint32) << 16).view(np.float32)
        out[name] = v if v.dtype == np.int64 else v.astype(np.float64)
    return out


def write_safetensors(path, tensors):
    head, data = {}, b""
    for name, v in tensors.items():
        v = np.ascontiguousarray(v, "<f8")
        head[name] = {"dtype": "F64", "shape": list(v.shape), "data_offsets": [len(data), len(data) + v.nbytes]}
        data += v.tobytes()
    head = json.dumps(head).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f: f.write(len(head).to_bytes(8, "little") + head + data)


def read_weights(folder):
    w = {}
    for f in sorted(os.listdir(folder)):
        if f.startswith("model") and f.endswith(".safetensors"): w.update(read_safetensors(f"{folder}/{f}"))
    return w


# ---- rotation ------------------------------------------------------------------------------------------------------

def powers(base, dim):
    """base^(2i/dim), exponent and result in float32."""
    e = (np.arange(0, dim, 2).astype(f32) / f32(dim)).astype(np.float64)
    return (float(base) ** e).astype(f32)


def yarn(r, dim, theta):
    factor, original = r["factor"], r["original_max_position_embeddings"]
    where = lambda turns: dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = where(r.get("beta_fast") or 32), where(r.get("beta_slow") or 1)
    if r.get("truncate", True): low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high: high += 0.001
    ramp = np.clip((np.arange(dim // 2).astype(f32) - f32(low)) / f32(high - low), f32(0), f32(1))
    keep = f32(1) - ramp
    p = powers(theta, dim)
    inv = f32(1) / (f32(factor) * p) * (f32(1) - keep) + f32(1) / p * keep
    return inv, r.get("attention_factor") or (0.1 * math.log(factor) + 1 if factor > 1 else 1.0)


def llama3(r, inv):
    factor, low, high = f32(r["factor"]), r["low_freq_factor"], r["high_freq_factor"]
    original = r["original_max_position_embeddings"]
    wave = f32(2 * math.pi) / inv
    smooth = (f32(original) / wave - f32(low)) / f32(high - low)
    between = (f32(1) - smooth) * inv / factor + smooth * inv
    return np.where(wave > original / low, inv / factor, np.where(wave < original / high, inv, between)).astype(f32)


def longrope(r, c, dim, theta, tokens):
    original = r.get("original_max_position_embeddings") or c["original_max_position_embeddings"]
    stretch = np.array(r["long_factor" if tokens > original else "short_factor"], f32)
    factor = r.get("factor") or c["max_position_embeddings"] / original
    a = r.get("attention_factor") or (math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0)
    return f32(1) / (stretch * powers(theta, dim)), a


def frequencies(r, c, dim, tokens):
    """inv_freq [dim / 2] f32, and what cosine and sine are multiplied by."""
    kind, theta = r.get("rope_type") or r.get("type") or "default", r["rope_theta"]
    if kind == "yarn": return yarn(r, dim, theta)
    if kind == "longrope": return longrope(r, c, dim, theta, tokens)
    if kind == "dynamic":
        limit = c["max_position_embeddings"]
        n, k = max(tokens, limit), r["factor"]
        theta = theta * (k * n / limit - (k - 1)) ** (dim / (dim - 2))
    inv = f32(1) / powers(theta, dim)
    if kind == "linear": inv = inv / f32(r["factor"])
    elif kind == "llama3": inv = llama3(r, inv)
    elif kind not in ("default", "dynamic"): raise SystemExit(f"rope kind {kind}")
    return inv, 1.0


def rope_parameters(c, local):
    """One flat table from either spelling of config.json."""
    p = c.get("rope_parameters")
    if p and "full_attention" in p: return p["sliding_attention" if local else "full_attention"]
    if p: return p
    if local: return dict(rope_theta=c.get("rope_local_base_freq", 10000.0))
    return dict(c.get("rope_scaling") or {}, rope_theta=c.get("rope_theta", 10000.0))


def rotation(c, local, dim, tokens):
    inv, factor = frequencies(rope_parameters(c, local), c, dim, tokens)
    angle = np.arange(tokens)[:, None] * inv.astype(np.float64)
    return np.cos(angle) * factor, np.sin(angle) * factor


def rotate(x, cs):
    """x [heads, T, head_dim]: dimension d turns with d + dim/2; what is beyond dim stays."""
    cos, sin = cs
    h = cos.shape[1]
    a, b = x[..., :h], x[..., h:2 * h]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 2 * h:]], -1)


# ---- the model -----------------------------------------------------------------------------------------------------

def windows(c):
    """For each layer how many keys a query sees, itself included; None: all."""
    n, kind, w = c["num_hidden_layers"], c["model_type"], c.get("sliding_window")
    if kind in ("mistral", "phi3"): return [w] * n
    if kind == "gemma3_text":
        k = c.get("sliding_window_pattern") or c.get("_sliding_window_pattern") or 6
        types = c.get("layer_types") or ["full_attention" if (i + 1) % k == 0 else "sliding_attention" for i in range(n)]
    elif c.get("use_sliding_window"):
        types = c.get("layer_types") or ["sliding_attention" if i >= c["max_window_layers"] else "full_attention" for i in range(n)]
    else: return [None] * n
    return [w if t == "sliding_attention" else None for t in types]


def softmax(s):
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


class Model:
    def __init__(self, folder):
        self.c, self.w = json.load(open(folder + "/config.json")), read_weights(folder)
        c = self.c
        self.gemma = c["model_type"] == "gemma3_text"
        self.heads, self.kv_heads = c["num_attention_heads"], c.get("num_key_value_heads") or c["num_attention_heads"]
        self.dim = c.get("head_dim") or c["hidden_size"] // self.heads
        p = (c.get("rope_parameters") or {}).get("partial_rotary_factor") or c.get("partial_rotary_factor") or 1.0
        self.rotary = int(self.dim * p)
        self.scale = (c["query_pre_attn_scalar"] if self.gemma else self.dim) ** -0.5

    def norm(self, x, name):
        w = self.w[name + ".weight"] + (1.0 if self.gemma else 0.0)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * w

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def qkv(self, x, p):
        nq, nkv = self.heads * self.dim, self.kv_heads * self.dim
        if p + "qkv_proj.weight" in self.w: y = np.split(self.linear(x, p + "qkv_proj"), [nq, nq + nkv], -1)
        else: y = [self.linear(x, p + n) for n in ("q_proj", "k_proj", "v_proj")]
        y = [v.reshape(len(x), -1, self.dim).swapaxes(0, 1) for v in y]
        for i, n in enumerate(("q_norm", "k_norm")):
            if p + n + ".weight" in self.w: y[i] = self.norm(y[i], p + n)
        return y

    def attention(self, x, p, turn, window):
        q, k, v = self.qkv(x, p)
        if turn: q, k = rotate(q, turn), rotate(k, turn)
        back = np.arange(len(x))[:, None] - np.arange(len(x))
        seen = (back >= 0) & (back < (window or len(x)))
        heads = []
        for h in range(self.heads):
            g = h * self.kv_heads // self.heads
            heads.append(softmax(np.where(seen, q[h] @ k[g].T * self.scale, -np.inf)) @ v[g])
        return self.linear(np.concatenate(heads, -1), p + "o_proj")

    def mlp(self, x, p):
        if p + "gate_up_proj.weight" in self.w: g, u = np.split(self.linear(x, p + "gate_up_proj"), 2, -1)
        else: g, u = self.linear(x, p + "gate_proj"), self.linear(x, p + "up_proj")
        if self.gemma: g = 0.5 * g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3)))
        else: g = g / (1 + np.exp(-g))
        return self.linear(g * u, p + "down_proj")

    def logits(self, ids, last=None):
        c, w, n = self.c, windows(self.c), len(ids)
        x = self.w["model.embed_tokens.weight"][ids]
        if self.gemma: x = x * math.sqrt(c["hidden_size"])
        turns = {local: rotation(c, local, self.rotary, n) for local in ({False, True} if self.gemma else {False})}
        still = c.get("no_rope_layers") or [1] * c["num_hidden_layers"]
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            turn = turns[self.gemma and w[i] is not None] if still[i] else None
            a = self.attention(self.norm(x, p + "input_layernorm"), p + "self_attn.", turn, w[i])
            if self.gemma:
                x = x + self.norm(a, p + "post_attention_layernorm")
                m = self.mlp(self.norm(x, p + "pre_feedforward_layernorm"), p + "mlp.")
                x = x + self.norm(m, p + "post_feedforward_layernorm")
            else:
                x = x + a
                x = x + self.mlp(self.norm(x, p + "post_attention_layernorm"), p + "mlp.")
        x = self.norm(x[-last:] if last else x, "model.norm")
        return x @ self.w["model.embed_tokens.weight" if c.get("tie_word_embeddings") else "lm_head.weight"].T


def main():
    models, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    for name in sys.argv[3:] or sorted(os.listdir(models)):
        model, out_tensors = Model(f"{models}/{name}"), {}
        for file, key, last in (("golden", "logits", None), ("golden_long", "last_logits", 4)):
            if not os.path.exists(f"{models}/{name}/{file}.safetensors"): continue
            gold = read_safetensors(f"{models}/{name}/{file}.safetensors")
            v = out_tensors[key] = model.logits(gold["input_ids"], last)
            print(f"{name} {key}: float32 transformers is {np.abs(v - gold[key]).max():.3g} away, spread {v.std():.3g}")
        write_safetensors(f"{out}/{name}.safetensors", out_tensors)


if __name__ == "__main__": main()
