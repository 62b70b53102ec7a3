#!/usr/bin/env python3
"""More tiny checkpoints, made as generate_models.py makes its own: what those leave out of rotation, windows, biases and
shapes, contexts of several attention segments, and GGUF blocks that are cut at the border of a head.

usage: generate_more_models.py OUTDIR [name ...]
Writes OUTDIR/models/NAME and OUTDIR/gguf/NAME.gguf.  Deterministic; made with transformers 5.24.0 on torch 2.8.0.
"""
import copy, json, os, shutil, sys
import numpy as np, torch, transformers, gguf
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import generate_models as G
from generate_models import rp
from safetensors.torch import save_file

MARGIN, LONG = 2e-3, 1300
MORE = []   # name, class prefix, dtype, T, config, options


def more(name, arch, T, h, f, l, nh, nkv, v, opt={}, **k):
    d = dict(hidden_size=h, intermediate_size=f, num_hidden_layers=l, num_attention_heads=nh, num_key_value_heads=nkv,
             vocab_size=v, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=None,
             tie_word_embeddings=False, rms_norm_eps=1e-5, rope_parameters=rp(10000.0))
    MORE.append((name, arch, "bf16", T, dict(d, **k), opt))


longrope = dict(rope_type="longrope", original_max_position_embeddings=64,
                short_factor=[round(1 + 0.07 * i, 2) for i in range(8)],
                long_factor=[round(1 + 0.6 * i * i, 2) for i in range(8)])
more("llama-linear-bf16", "Llama", 24, 64, 112, 2, 4, 2, 259, dict(long=True), rope_parameters=rp(rope_type="linear", factor=4.0))
more("llama-dynamic-bf16", "Llama", 24, 64, 112, 2, 4, 2, 263, dict(long=True, other_frequencies_each_step=True),
     max_position_embeddings=64, rope_parameters=rp(rope_type="dynamic", factor=4.0))
more("llama-yarn-bf16", "Llama", 96, 64, 112, 2, 4, 2, 251, dict(long=True), max_position_embeddings=256,
     rope_parameters=rp(rope_type="yarn", factor=8.0, original_max_position_embeddings=32))
more("phi3-longrope-bf16", "Phi3", 24, 64, 112, 2, 4, 2, 257, dict(long=True), pad_token_id=0,
     original_max_position_embeddings=64, sliding_window=None, rope_parameters=rp(**longrope))
more("phi3-partial-bf16", "Phi3", 24, 96, 108, 2, 4, 2, 261, dict(long=True), pad_token_id=0,
     original_max_position_embeddings=512, sliding_window=None, rope_parameters=rp(partial_rotary_factor=0.5))
more("llama-bias-bf16", "Llama", 24, 64, 136, 2, 4, 2, 267, attention_bias=True, mlp_bias=True)
more("qwen2-window-bf16", "Qwen2", 24, 64, 112, 3, 4, 2, 271, dict(long=True, drop=["layer_types"]), rms_norm_eps=1e-6,
     use_sliding_window=True, sliding_window=9, max_window_layers=1)
more("llama-12heads-bf16", "Llama", 24, 48, 300, 2, 12, 4, 1000, head_dim=8)
more("llama-head20-bf16", "Llama", 24, 100, 90, 2, 5, 1, 281)
more("llama-long-bf16", "Llama", 0, 64, 112, 2, 4, 2, 257, max_position_embeddings=2048, rope_parameters=rp(500000.0))
more("mistral-long-bf16", "Mistral", 0, 64, 112, 2, 4, 2, 257, max_position_embeddings=2048, sliding_window=600)


@torch.no_grad()
def last_logits(path, vocab, seed):
    """As golden_long.safetensors, for a prompt of several attention segments."""
    m = G.load(path)
    ids = torch.randint(3, vocab, (LONG,), generator=torch.Generator().manual_seed(seed + 777))
    logits = m(input_ids=ids[None], use_cache=False).logits[0]
    more_ids, steps = G.greedy(m, ids, 8)
    r = dict(input_ids=ids, last_logits=logits[-4:].contiguous().clone(), greedy_ids=more_ids)
    return r, dict(min_margin=min(s["margin"] for s in steps), logits_std=float(logits.std()))


def attempt(path, cfg, arch, dtype, T, seed, opt):
    shutil.rmtree(path, ignore_errors=True); os.makedirs(path)
    torch.manual_seed(seed)
    m = getattr(transformers, arch + "ForCausalLM")(copy.deepcopy(cfg))
    G.init_(m, cfg, arch, seed); m.to(G.DT[dtype]).save_pretrained(path)
    G.finish(path, arch, "hub", False)
    c = json.load(open(path + "/config.json"))
    for k in opt.get("drop", []): c.pop(k)           # so that the rest of the file must say it
    json.dump(c, open(path + "/config.json", "w"), indent=2)
    if not T: return last_logits(path, cfg.vocab_size, seed)
    r = G.golden(path, dtype, T, cfg.vocab_size, seed, opt.get("long", False))
    if opt.get("other_frequencies_each_step"):       # no single plan gives transformers' continuation
        del r["long"]["greedy_ids"]; r["meta"].pop("long_min_margin")
    return r, r["meta"]


def make(out, name, arch, dtype, T, cfgk, opt):
    path = f"{out}/models/{name}"
    cfg = G.cfg_class(arch)(**copy.deepcopy(cfgk))
    for k in range(40):
        seed = sum(ord(c) * (i + 1) for i, c in enumerate(name)) + k * 1000
        r, meta = attempt(path, cfg, arch, dtype, T, seed, opt)
        if min(meta["min_margin"], meta.get("long_min_margin", 1)) > MARGIN and meta.get("distinct", 10) >= 10: break
    info = dict(name=name, arch=arch + "ForCausalLM", stored_dtype=G.DTNAME[dtype], seed=seed, config_style="hub")
    if T:
        info = G.write_golden(path, r, info)
        save_file(dict(input_ids=r["ids"].contiguous(), logits=r["logits"].contiguous()), path + "/golden.safetensors")
        return info
    save_file(r, path + "/golden_long.safetensors")
    json.dump(dict(info, T=LONG, **meta), open(path + "/golden_meta.json", "w"), indent=1)
    return meta


def make_gguf(out, types):
    """Heads of 80 = two and a half blocks: a rank that owns one head holds half of a quantization block of attn_output."""
    import generate_gguf as Q
    cfg = transformers.LlamaConfig(vocab_size=259, hidden_size=96, intermediate_size=160, num_hidden_layers=2,
                                   num_attention_heads=4, num_key_value_heads=2, head_dim=80, rms_norm_eps=1e-5,
                                   max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=2,
                                   tie_word_embeddings=True, rope_parameters=rp(10000.0))
    seed = 8032
    m = transformers.LlamaForCausalLM(cfg); G.init_(m, cfg, "Llama", seed)
    sd = {k: v.detach().clone() for k, v in m.state_dict().items()}
    ids = torch.randint(3, 259, (24,), generator=torch.Generator().manual_seed(seed))
    for t in types:
        w = gguf.GGUFWriter(f"{out}/gguf/head80-{t}.gguf", "llama")
        w.add_name(f"head80-{t}"); w.add_file_type(Q.FTYPE[t]); w.add_context_length(512); w.add_embedding_length(96)
        w.add_block_count(2); w.add_feed_forward_length(160); w.add_head_count(4); w.add_head_count_kv(2)
        w.add_key_length(80); w.add_value_length(80); w.add_rope_dimension_count(80); w.add_rope_freq_base(10000.0)
        w.add_layer_norm_rms_eps(1e-5); w.add_vocab_size(259); w.add_quantization_version(2); w.add_tokenizer_model("none")
        deq = {}
        for hf, gg in Q.names(2, True).items():
            x, heads = sd[hf].float().numpy(), 4 if ".attn_q." in gg else 2 if ".attn_k." in gg else 0
            if x.ndim == 1:
                w.add_tensor(gg, x); deq[hf] = sd[hf]
                continue
            data = gguf.quants.quantize(np.ascontiguousarray(Q.permute(x, heads) if heads else x), Q.QT[t])
            w.add_tensor(gg, data, raw_dtype=Q.QT[t])
            d = gguf.quants.dequantize(data, Q.QT[t]).reshape(x.shape)
            deq[hf] = torch.from_numpy(np.ascontiguousarray(Q.unpermute(d, heads) if heads else d))
        w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
        mm = transformers.LlamaForCausalLM._from_config(cfg, attn_implementation="eager", dtype=torch.float32).eval()
        mm.load_state_dict(deq, strict=False); mm.tie_weights()
        logits, _, _ = G.trace(mm, ids)
        save_file(dict(input_ids=ids, logits=logits.contiguous()), f"{out}/gguf/head80-{t}.golden.safetensors")
        print(f"head80-{t}", os.path.getsize(f"{out}/gguf/head80-{t}.gguf"), float(logits.std()))


if __name__ == "__main__":
    out, only = sys.argv[1], sys.argv[2:]
    for m in MORE:
        if not only or m[0] in only: print(m[0], make(out, *m), flush=True)
    types = [t for t in ("Q8_0", "Q4_0", "Q4_1") if not only or f"head80-{t}" in only]
    if types: make_gguf(out, types)
