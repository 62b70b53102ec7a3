"""A Llama in torch: RMSNorm, rotary positions, grouped-query attention, SwiGLU, tied embeddings.

Parameter names are those of Hugging Face's LlamaForCausalLM, so that state_dict() is the file.
"""

import torch
from torch import nn
from torch.nn import functional as F

MIRIM = {
    "vocab_size": 1024,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
}
DRAFT = {
    "vocab_size": 1024,
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
COMMON = {"max_position_embeddings": 1024, "rope_theta": 10000.0, "rms_norm_eps": 1e-5}


def rope_tables(length, head_dim, theta):
    """cos, sin [length][head_dim], the half repeated as in Hugging Face's rotate_half."""
    freq = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle = torch.arange(length, dtype=torch.float32)[:, None] * freq[None, :]
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.dim = (
            c["num_attention_heads"],
            c["num_key_value_heads"],
            c["head_dim"],
        )
        self.q_proj = nn.Linear(c["hidden_size"], self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(c["hidden_size"], self.kv_heads * self.dim, bias=False)
        self.v_proj = nn.Linear(c["hidden_size"], self.kv_heads * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, c["hidden_size"], bias=False)

    def forward(self, x, cos, sin, mask, past):
        b, t, _ = x.shape
        q = rotate(self.q_proj(x).view(b, t, self.heads, self.dim).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(x).view(b, t, self.kv_heads, self.dim).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.dim).transpose(1, 2)
        if past is not None:
            if past:
                k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
            past[:] = [k, v]
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        causal = mask is None and t > 1
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.o_proj(out.transpose(1, 2).reshape(b, t, self.heads * self.dim))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = MLP(c)

    def forward(self, x, cos, sin, mask, past):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask, past)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList([Layer(c) for _ in range(c["num_hidden_layers"])])
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = {**COMMON, **config}
        self.model = Body(self.config)
        cos, sin = rope_tables(
            COMMON["max_position_embeddings"], config["head_dim"], COMMON["rope_theta"]
        )
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                depth = (2 * config["num_hidden_layers"]) ** 0.5
                out = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=0.03 / (depth if out else 1))

    def hidden(self, ids, mask=None, cache=None):
        """ids [b][t] -> normed states [b][t][hidden]. cache: the layers' [k, v], grown in place."""
        start = cache[0][0].shape[2] if cache and cache[0] else 0
        cos, sin = self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]]
        x = self.model.embed_tokens(ids)
        for i, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, mask, cache[i] if cache is not None else None)
        return self.model.norm(x)

    def forward(self, ids, mask=None, cache=None):
        return self.hidden(ids, mask, cache) @ self.model.embed_tokens.weight.T

    def new_cache(self):
        return [[] for _ in self.model.layers]

    @torch.no_grad()
    def greedy(self, prompts, count, stop=()):
        """Greedy continuations, at most `count` ids, of prompts of one length; no stop ids."""
        cache, rows = self.new_cache(), [[] for _ in prompts]
        logits = self(torch.tensor(prompts), cache=cache)[:, -1]
        count = min(count, self.config["max_position_embeddings"] - len(prompts[0]))
        for _ in range(count):
            best = logits.argmax(-1)
            for row, token in zip(rows, best.tolist()):
                row.append(token)
            if all(any(t in stop for t in row) for row in rows):
                break
            logits = self(best[:, None], cache=cache)[:, -1]
        ends = [next((i for i, t in enumerate(row) if t in stop), len(row)) for row in rows]
        return [row[:end] for row, end in zip(rows, ends)]
