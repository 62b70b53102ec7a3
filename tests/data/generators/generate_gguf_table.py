#!/usr/bin/env python3
"""The tiny Llama of gguf/ once more in IQ4_NL, IQ4_XS and MXFP4, with golden logits of the dequantized weights.

usage: generate_gguf_table.py GGUF_DIR libggml-base.so
Reads GGUF_DIR/tiny-llama-BF16.gguf (weights, metadata) and the ids of its golden file; adds tiny-llama-TYPE.gguf,
tiny-llama-TYPE.golden.safetensors and the entries of index.json.  ggml's quantizer makes IQ4_NL and IQ4_XS, the `gguf`
package MXFP4; all are dequantized by the package and multiplied in float64 by golden64.py, whose logits of the Q4_0 file
must be those of float32 transformers first.  Needs numpy and gguf.
"""
import hashlib, json, os, struct, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ctypes
import numpy as np, gguf
import golden64

QT = gguf.GGMLQuantizationType
FILE_TYPE = dict(IQ4_NL=25, IQ4_XS=30, MXFP4=38)
folder, lib = sys.argv[1], ctypes.CDLL(sys.argv[2])
lib.ggml_quantize_chunk.restype = ctypes.c_size_t
lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                    ctypes.c_int64, ctypes.c_void_p]
HF = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj",
      **{f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"}, **{f"ffn_{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")}}


def hf_name(name):
    if name in ("token_embd.weight", "output_norm.weight"):
        return {"t": "model.embed_tokens.weight", "o": "model.norm.weight"}[name[0]]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{HF[part]}.weight"


def unpermute(w, heads):
    return w.reshape(heads, w.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)


class Tiny(golden64.Model):
    """golden64's Llama on the dequantized tensors of a GGUF file."""

    def __init__(self, meta, tensors):
        a = "llama."
        self.c = dict(model_type="llama", num_hidden_layers=meta[a + "block_count"], rms_norm_eps=meta[a + "attention.layer_norm_rms_epsilon"],
                      rope_parameters=dict(rope_type="default", rope_theta=meta[a + "rope.freq_base"]), tie_word_embeddings=True)
        self.heads, self.kv_heads, self.gemma = meta[a + "attention.head_count"], meta[a + "attention.head_count_kv"], False
        self.dim = self.rotary = meta[a + "embedding_length"] // self.heads
        self.scale = self.dim ** -0.5
        self.w = {}
        for name, v in tensors.items():
            if ".attn_q." in name: v = unpermute(v, self.heads)
            if ".attn_k." in name: v = unpermute(v, self.kv_heads)
            self.w[hf_name(name)] = v.astype(np.float64)


def read(path):
    r = gguf.GGUFReader(path)
    return r, {k: f.contents() for k, f in r.fields.items() if not k.startswith("GGUF.")}


def dequantized(r):
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype("<f4").reshape([int(d) for d in t.shape][::-1]) for t in r.tensors}


def quantize(x, t):
    if t == QT.MXFP4: return gguf.quants.quantize(x, t)
    block, size = gguf.GGML_QUANT_SIZES[t]
    out = np.zeros((x.shape[0], x.shape[1] // block * size), np.uint8)
    n = lib.ggml_quantize_chunk(int(t), x.ctypes.data, out.ctypes.data, 0, x.shape[0], x.shape[1], None)
    assert n == out.nbytes
    return out


def write_golden(path, ids, logits):
    """input_ids i64, logits f32."""
    head, data = {}, b""
    for name, dtype, v in (("input_ids", "I64", ids.astype("<i8")), ("logits", "F32", logits.astype("<f4"))):
        head[name] = dict(dtype=dtype, shape=list(v.shape), data_offsets=[len(data), len(data) + v.nbytes])
        data += v.tobytes()
    head = json.dumps(head).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(head)) + head + data)


def write_gguf(path, source, meta, name):
    """The source's metadata; its matrices in type `name`, its vectors as they are. Returns index.json's tensors."""
    w, info = gguf.GGUFWriter(path, "llama"), {}
    for key, f in source.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture": continue
        value = {"general.name": f"tiny-llama-{name}", "general.file_type": FILE_TYPE[name]}.get(key, meta[key])
        w.add_key_value(key, value, f.types[0], sub_type=f.types[-1] if len(f.types) > 1 else None)
    values = dequantized(source)
    for t in source.tensors:
        x = values[t.name]
        kind = QT.F32 if x.ndim == 1 else QT[name]
        data = x if x.ndim == 1 else quantize(np.ascontiguousarray(x), kind)
        w.add_tensor(t.name, data, raw_dtype=None if x.ndim == 1 else kind)
        d = gguf.quants.dequantize(data, kind).astype("<f4").reshape(x.shape) if x.ndim > 1 else x
        info[t.name] = dict(type=kind.name, shape=list(x.shape), raw_bytes=int(data.nbytes),
                            dequantised_f32_sha256=hashlib.sha256(np.ascontiguousarray(d).tobytes()).hexdigest(),
                            first8=[float(v) for v in d.reshape(-1)[:8]])
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    return info


def greedy(model, ids, n):
    margins = []
    for _ in range(n):
        v = model.logits(np.array(ids), 1)[0]
        first, second = np.sort(v)[-1:-3:-1]
        margins.append(float(first - second)); ids = ids + [int(v.argmax())]
    return ids[-n:], margins


def main():
    r, meta = read(f"{folder}/tiny-llama-Q4_0.gguf")
    gold = golden64.read_safetensors(f"{folder}/tiny-llama-Q4_0.golden.safetensors")
    ids = gold["input_ids"]
    off = np.abs(Tiny(meta, dequantized(r)).logits(ids) - gold["logits"]).max() / gold["logits"].std()
    print(f"Q4_0: float32 transformers is {off:.2g} of the spread away")
    assert off < 1e-5
    with open(f"{folder}/index.json") as f: index = json.load(f)
    source, meta = read(f"{folder}/tiny-llama-BF16.gguf")
    for name in FILE_TYPE:
        path = f"{folder}/tiny-llama-{name}.gguf"
        info = write_gguf(path, source, meta, name)
        r, _ = read(path)
        values = dequantized(r)
        for t in info:
            assert hashlib.sha256(np.ascontiguousarray(values[t]).tobytes()).hexdigest() == info[t]["dequantised_f32_sha256"], t
        model = Tiny(meta, values)
        logits = model.logits(ids)
        write_golden(f"{folder}/tiny-llama-{name}.golden.safetensors", ids, logits)
        out, margins = greedy(model, ids[:8].tolist(), 32)
        index[name] = dict(file=os.path.basename(path), bytes=os.path.getsize(path), prompt_ids=ids[:8].tolist(), generated_ids=out,
                           min_margin=min(margins), margins=margins, tensors=info)
        print(name, os.path.getsize(path), "spread", logits.std(), "from Q4_0's", np.abs(logits - gold["logits"]).max())
    with open(f"{folder}/index.json", "w") as f: f.write(json.dumps(index, indent=1))


main()
