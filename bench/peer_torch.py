"""peer_torch.py TYPE THREADS PROMPT GENERATE: the 1.1-billion-parameter shape with random weights in transformers on
torch, one sample of prefill and decode tokens/s as JSON. Called by measure.py with a Python that has both."""
import json, sys, time
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main(kind, threads, prompt, generate):
    torch.set_num_threads(threads)
    config = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                         num_key_value_heads=4, vocab_size=32000, max_position_embeddings=16384)
    with torch.device("meta"): model = LlamaForCausalLM(config)
    model = model.to(torch.float32 if kind == "F32" else torch.bfloat16).to_empty(device="cpu").eval()
    with torch.no_grad():
        for p in model.parameters(): p.uniform_(-0.035, 0.035)
        rope = model.model.rotary_emb  # to_empty left its frequencies undefined
        rope.inv_freq = 10000.0 ** (-torch.arange(0, 64, 2).float() / 64)
        ids = torch.randint(0, 32000, (1, prompt))
        model(ids, use_cache=True, logits_to_keep=1)  # warms up
        t0 = time.perf_counter()
        out = model(ids, use_cache=True, logits_to_keep=1)
        t1 = time.perf_counter()
        for _ in range(generate):
            out = model(out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values, use_cache=True)
        t2 = time.perf_counter()
    print(json.dumps(dict(prefill_tokens_per_s=prompt / (t1 - t0), decode_tokens_per_s=generate / (t2 - t1))))


if __name__ == "__main__": main(sys.argv[1], *map(int, sys.argv[2:5]))
