"""peer_xft.py TYPE PROMPT GENERATE: the 1.1-billion-parameter shape in xFasterTransformer with weights that it makes up,
one sample of prefill and decode tokens/s as JSON. Called by measure.py with a Python that has it, OMP_NUM_THREADS set,
libiomp5 preloaded, and XFT_FAKE_MODEL=1. Under mpirun every rank runs it and rank 0 prints."""
import json, os, sys, tempfile, time
import torch
import xfastertransformer

CONFIG = """[llama]
model_name = llama
head_num = 32
kv_head_num = 4
hidden_size = 2048
size_per_head = 64
inter_size = 5632
max_pos_seq_len = 16384
num_layer = 22
layernorm_eps = 1e-5
layernorm_type = pre_layernorm
activation_type = silu
rope_theta = 10000
scaling_factor = 1.0
rope_type = null
has_post_decoder_layernorm = 1
vocab_size = 32000
start_id = 1
end_id = 2
pad_id = 0
weight_data_type = fp16
attn_params_type = GQAttnParams
ffn_params_type = LlamaFFNParams
"""


def main(kind, prompt, generate):
    with tempfile.TemporaryDirectory() as path:
        with open(path + "/config.ini", "w") as f: f.write(CONFIG)
        model = xfastertransformer.AutoModel.from_pretrained(path, dtype={"BF16": "bf16", "Q8_0": "int8", "F16": "fp16"}[kind])
    times = []
    for n in (prompt, prompt):  # the first warms up
        ids = torch.randint(3, 32000, (1, n)) if model.rank == 0 else None
        model.config(max_length=n + generate + 1) if model.rank != 0 else model.set_input(ids, max_length=n + generate + 1)
        times = [time.perf_counter()]
        while not model.is_done():
            model.forward()
            times.append(time.perf_counter())
    steps = len(times) - 2
    if model.rank == 0:
        print(json.dumps(dict(prefill_tokens_per_s=prompt / (times[1] - times[0]), decode_tokens_per_s=steps / (times[-1] - times[1]))))
    sys.stdout.flush()
    os._exit(0)  # the library may crash in its own end


if __name__ == "__main__": main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
