"""A small Llama whose matrices fit every view, as a checkpoint, and directly quantised twins of it."""

import torch

VOCABULARY = 96


def tiny_llama(seed=3, tied=False, dtype=torch.bfloat16):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
    )
    model = LlamaForCausalLM(config).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:  # larger than fresh ones, so that logits differ
                parameter.mul_(4)
            elif "norm" in name:
                parameter.add_(torch.randn(parameter.shape) * 0.1)
    return model.eval()


def save(model, folder, **options):
    model.save_pretrained(folder, **options)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64}\n')
    (folder / "original").mkdir()
    (folder / "original" / "params.json").write_text("{}")
    return folder


def logits(model):
    tokens = torch.arange(40).reshape(2, 20) * 7 % VOCABULARY
    with torch.no_grad():
        return model(input_ids=tokens).logits.float()


def linears(model):
    """The modules that every view quantises."""
    return {
        name: module
        for name, module in model.named_modules()
        if type(module) is torch.nn.Linear and not name.endswith("lm_head")
    }
