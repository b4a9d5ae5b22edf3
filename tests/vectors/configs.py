"""configs.py - writes configs/NAME.json and configs.json: published model configurations, and what transformers makes of them.

    python -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.24.0 && venv/bin/python tests/vectors/configs.py

Each file has the keys of the config.json that its model was published with, those alone that sizes depend on (the names of
the repositories are in SOURCES; keys that are missing there are missing here). What is expected comes from transformers
and from no code of ours: the model is built without memory (torch's meta device), and

    bytes_per_token   2 bytes for each output of the matrices whose result is cached: k_proj and v_proj, the fused ones less the
                      queries, the latent and the rotary key of MLA, the key of an indexer
    window            from the cache that transformers makes for the configuration: layers that keep a window, and its size
    n_weights         elements of all parameters, an output matrix that is the embedding counted once
    n_weights_active  the same, of experts as many as a token meets
    state_bytes       of one recurrent layer: its state in float32, and in 16 bits the inputs that the convolution looks back
                      at, one less than it is wide
    kinds             layers of each kind
"""
import json
import os

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import DynamicCache, DynamicSlidingWindowLayer

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 32768


def llama(width, ffn, layers, heads, heads_kv, context, vocab=128256, tied=False, **more):
    return dict(model_type="llama", hidden_size=width, intermediate_size=ffn, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=heads_kv, max_position_embeddings=context,
                vocab_size=vocab, tie_word_embeddings=tied, torch_dtype="bfloat16", **more)


DEEPSEEK_V3 = dict(
    model_type="deepseek_v3", hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_hidden_layers=61,
    num_attention_heads=128, num_key_value_heads=128, kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128,
    qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, n_group=8,
    topk_group=4, first_k_dense_replace=3, moe_layer_freq=1, num_nextn_predict_layers=1, max_position_embeddings=163840,
    vocab_size=129280, tie_word_embeddings=False, torch_dtype="bfloat16",
    quantization_config=dict(quant_method="fp8", fmt="e4m3", weight_block_size=[128, 128]))

SOURCES = {
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama-3-70b": "meta-llama/Meta-Llama-3-70B",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-v0.3": "mistralai/Mistral-7B-v0.3",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "qwen2.5-7b": "Qwen/Qwen2.5-7B",
    "qwen3-8b": "Qwen/Qwen3-8B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3-next-80b": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "gemma-2-2b": "google/gemma-2-2b",
    "gemma-3-270m": "google/gemma-3-270m",
    "gemma-3-4b": "google/gemma-3-4b-it",
    "gemma-3-27b": "google/gemma-3-27b-pt",
    "phi-3-mini-4k": "microsoft/Phi-3-mini-4k-instruct",
    "phi-4": "microsoft/phi-4",
    "deepseek-v2-lite": "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "deepseek-v3.2": "deepseek-ai/DeepSeek-V3.2-Exp",
    "jamba-v0.1": "ai21labs/Jamba-v0.1",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "falcon-7b": "tiiuae/falcon-7b",
    "falcon-40b": "tiiuae/falcon-40b",
    "falcon-rw-1b": "tiiuae/falcon-rw-1b",
    "gpt2": "openai-community/gpt2",
    "mpt-7b": "mosaicml/mpt-7b",
    "bloom": "bigscience/bloom",
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M",
}

CONFIGS = {
    "llama-3-8b": llama(4096, 14336, 32, 32, 8, 8192),
    "llama-3-70b": llama(8192, 28672, 80, 64, 8, 8192),
    "llama-3.1-8b": llama(4096, 14336, 32, 32, 8, 131072),
    "llama-3.1-70b": llama(8192, 28672, 80, 64, 8, 131072),
    "llama-3.2-1b": llama(2048, 8192, 16, 32, 8, 131072, tied=True, head_dim=64),
    "mistral-7b": dict(llama(4096, 14336, 32, 32, 8, 32768, 32000), model_type="mistral", sliding_window=4096),
    "mistral-7b-v0.3": dict(llama(4096, 14336, 32, 32, 8, 32768, 32768), model_type="mistral", sliding_window=None),
    "mixtral-8x7b": dict(llama(4096, 14336, 32, 32, 8, 32768, 32000), model_type="mixtral", sliding_window=None,
                         num_local_experts=8, num_experts_per_tok=2),
    "qwen2.5-7b": dict(llama(3584, 18944, 28, 28, 4, 131072, 152064), model_type="qwen2", sliding_window=131072,
                       use_sliding_window=False, max_window_layers=28),
    "qwen3-8b": dict(llama(4096, 12288, 36, 32, 8, 40960, 151936), model_type="qwen3", head_dim=128, sliding_window=None,
                     use_sliding_window=False, max_window_layers=36),
    "qwen3-30b-a3b": dict(llama(2048, 6144, 48, 32, 4, 40960, 151936), model_type="qwen3_moe", head_dim=128,
                          sliding_window=None, use_sliding_window=False, max_window_layers=48, num_experts=128,
                          num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[]),
    "qwen3-next-80b": dict(llama(2048, 5120, 48, 16, 2, 262144, 151936), model_type="qwen3_next", head_dim=256,
                           full_attention_interval=4, linear_conv_kernel_dim=4, linear_key_head_dim=128,
                           linear_num_key_heads=16, linear_num_value_heads=32, linear_value_head_dim=128,
                           num_experts=512, num_experts_per_tok=10, moe_intermediate_size=512,
                           shared_expert_intermediate_size=512, decoder_sparse_step=1, mlp_only_layers=[]),
    "gemma-2-2b": dict(model_type="gemma2", hidden_size=2304, intermediate_size=9216, num_hidden_layers=26,
                       num_attention_heads=8, num_key_value_heads=4, head_dim=256, sliding_window=4096,
                       max_position_embeddings=8192, vocab_size=256000, torch_dtype="float32"),
    "gemma-3-270m": dict(model_type="gemma3_text", hidden_size=640, intermediate_size=2048, num_hidden_layers=18,
                         num_attention_heads=4, num_key_value_heads=1, head_dim=256, sliding_window=512,
                         max_position_embeddings=32768, vocab_size=262144, torch_dtype="bfloat16",
                         layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 3),
    "gemma-3-4b": dict(model_type="gemma3", torch_dtype="bfloat16",
                       text_config=dict(model_type="gemma3_text", hidden_size=2560, intermediate_size=10240,
                                        num_hidden_layers=34, sliding_window=1024)),
    "gemma-3-27b": dict(model_type="gemma3", torch_dtype="bfloat16",
                        text_config=dict(model_type="gemma3_text", head_dim=128, hidden_size=5376,
                                         intermediate_size=21504, num_attention_heads=32, num_hidden_layers=62,
                                         num_key_value_heads=16, query_pre_attn_scalar=168, sliding_window=1024)),
    "phi-3-mini-4k": dict(llama(3072, 8192, 32, 32, 32, 4096, 32064), model_type="phi3", sliding_window=2047),
    "phi-4": dict(llama(5120, 17920, 40, 40, 10, 16384, 100352), model_type="phi3", sliding_window=None),
    "deepseek-v2-lite": dict(
        model_type="deepseek_v2", hidden_size=2048, intermediate_size=10944, moe_intermediate_size=1408,
        num_hidden_layers=27, num_attention_heads=16, num_key_value_heads=16, kv_lora_rank=512, q_lora_rank=None,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=64, n_shared_experts=2,
        num_experts_per_tok=6, first_k_dense_replace=1, moe_layer_freq=1, max_position_embeddings=163840,
        vocab_size=102400, tie_word_embeddings=False, torch_dtype="bfloat16"),
    "deepseek-v3": DEEPSEEK_V3,
    "deepseek-v3.2": dict(DEEPSEEK_V3, model_type="deepseek_v32", index_head_dim=128, index_n_heads=64, index_topk=2048),
    "jamba-v0.1": dict(llama(4096, 14336, 32, 32, 8, 262144, 65536), model_type="jamba", attn_layer_offset=4,
                       attn_layer_period=8, expert_layer_offset=1, expert_layer_period=2, mamba_d_conv=4, mamba_d_state=16,
                       mamba_dt_rank=256, mamba_expand=2, num_experts=16, num_experts_per_tok=2),
    "gpt-oss-20b": dict(llama(2880, 2880, 24, 64, 8, 131072, 201088), model_type="gpt_oss", head_dim=64,
                        attention_bias=True, sliding_window=128, num_local_experts=32, num_experts_per_tok=4,
                        experts_per_token=4, layer_types=["sliding_attention", "full_attention"] * 12,
                        quantization_config=dict(quant_method="mxfp4")),
    "falcon-7b": dict(model_type="falcon", hidden_size=4544, num_attention_heads=71, num_hidden_layers=32, multi_query=True,
                      new_decoder_architecture=False, parallel_attn=True, alibi=False, bias=False, vocab_size=65024,
                      torch_dtype="bfloat16"),
    "falcon-40b": dict(model_type="falcon", hidden_size=8192, num_attention_heads=128, num_hidden_layers=60, num_kv_heads=8,
                       new_decoder_architecture=True, parallel_attn=True, alibi=False, bias=False, vocab_size=65024,
                       torch_dtype="bfloat16"),
    "falcon-rw-1b": dict(model_type="falcon", hidden_size=2048, num_attention_heads=32, num_hidden_layers=24,
                         multi_query=False, new_decoder_architecture=False, parallel_attn=False, alibi=True, bias=True,
                         vocab_size=50304, torch_dtype="bfloat16"),
    "gpt2": dict(model_type="gpt2", n_ctx=1024, n_embd=768, n_head=12, n_layer=12, n_positions=1024, vocab_size=50257),
    "mpt-7b": dict(model_type="mpt", d_model=4096, n_heads=32, n_layers=32, expansion_ratio=4, max_seq_len=2048,
                   vocab_size=50432, no_bias=True, torch_dtype="bfloat16",
                   attn_config=dict(alibi=True, alibi_bias_max=8, attn_type="multihead_attention")),
    "bloom": dict(model_type="bloom", n_embed=14336, n_layer=70, num_attention_heads=112, seq_length=2048, vocab_size=250880,
                  torch_dtype="bfloat16"),
    "smollm2-135m": llama(576, 1536, 30, 9, 3, 8192, 49152, tied=True),
}


def text_of(config):
    return getattr(config, "text_config", None) or config


def outputs_cached(name, layer, config):
    """Elements that a layer of the model keeps of a token: outputs of the matrices whose result is cached."""
    heads, width = config.num_attention_heads, config.hidden_size
    kept = None
    for path, module in layer.named_modules():
        last, out = path.split(".")[-1], getattr(module, "out_features", None)
        if last in ("k_proj", "v_proj", "kv_a_proj_with_mqa"):
            kept = (kept or 0) + out
        if path.endswith("indexer.wk"):
            kept += out
        if last in ("qkv_proj", "query_key_value", "Wqkv"):
            dim = getattr(config, "head_dim", None) or width // heads
            kept = out - heads * dim
        if last == "c_attn":
            kept = module.nf - width
    return kept


def state_bytes(layer):
    """Of a recurrent layer; None: it attends."""
    mamba, delta = getattr(layer, "mamba", None), getattr(layer, "linear_attn", None)
    if mamba is None and delta is None:
        return None
    module = mamba or delta
    channels, _, width = module.conv1d.weight.shape
    state = mamba.A_log.numel() if mamba else delta.num_v_heads * delta.head_k_dim * delta.head_v_dim
    return 4 * state + 2 * channels * (width - 1)


def experts_idle(model, config):
    """Weights of the experts that a token does not meet."""
    idle = 0
    used = getattr(config, "num_experts_per_tok", None)
    for path, module in model.named_modules():
        if path.endswith(".experts"):
            n = getattr(module, "num_experts", None) or len(module)
            idle += sum(p.numel() for p in module.parameters()) // n * (n - used)
    return idle


def expect(name, source):
    with open(os.path.join(HERE, "configs", name + ".json")) as f:
        raw = json.load(f)
    raw.pop("quantization_config", None)  # the model is built with plain weights; the count is the same
    config = text_of(AutoConfig.for_model(raw.pop("model_type"), **raw))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    weights = {id(p): p.numel() for p in model.parameters()}
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    if config.tie_word_embeddings and output is not embedding:
        weights.pop(id(output))
    stack = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == config.num_hidden_layers][0]
    cache = DynamicCache(config=config)
    total, per_token, kinds, state = 0, 0, {}, 0
    for i, layer in enumerate(stack):
        state = state_bytes(layer) or state
        kept = outputs_cached(name, layer, config)
        window = cache.layers[i].sliding_window if i < len(cache.layers) and isinstance(
            cache.layers[i], DynamicSlidingWindowLayer) else None
        latent = hasattr(config, "kv_lora_rank")
        kind = ("state" if kept is None else "sparse" if latent and hasattr(config, "index_head_dim") else
                "latent" if latent else "window" if window else "full")
        kinds[kind] = kinds.get(kind, 0) + 1
        per_token += 2 * (kept or 0)
        total += 2 * (kept or 0) * (min(TOKENS, window) if window else TOKENS)
    return dict(name=name, source=source, n_layers=config.num_hidden_layers, kinds=kinds, bytes_per_token=per_token,
                tokens=TOKENS, bytes_total=total + kinds.get("state", 0) * state, state_bytes=state,
                n_weights=sum(weights.values()), n_weights_active=sum(weights.values()) - experts_idle(model, config),
                tied=bool(config.tie_word_embeddings))


def main():
    rows = []
    for name, config in CONFIGS.items():
        with open(os.path.join(HERE, "configs", name + ".json"), "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        rows.append(expect(name, SOURCES[name]))
        print(rows[-1])
    with open(os.path.join(HERE, "configs.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main()
