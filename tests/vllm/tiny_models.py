"""Makes tiny checkpoints with random weights for the tests of the vLLM plugin. Run by the python that has vLLM.

usage: tiny_models.py OUT KIND...     kinds: tied, untied, moe
Each becomes OUT/KIND: config.json, model.safetensors (bf16), a byte-level tokenizer. Wide weights, so that a changed
element shows in the tokens; matrix sizes that vLLM's CPU kernels pack as they pack a real model's. Deterministic.
"""

import os
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3MoeConfig

VOCAB = 512
COMMON = dict(
    vocab_size=VOCAB,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=1024,
    initializer_range=0.15,
    bos_token_id=None,
    eos_token_id=1,
    pad_token_id=0,
)
KINDS = {
    "tied": lambda: Qwen3Config(**COMMON, tie_word_embeddings=True),
    "untied": lambda: Qwen3Config(**COMMON, tie_word_embeddings=False),
    "moe": lambda: Qwen3MoeConfig(
        **COMMON, tie_word_embeddings=False, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64,
        decoder_sparse_step=1, norm_topk_prob=True,
    ),
}


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - 64,
        special_tokens=["<pad>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["weights move in place, version by version"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<end>")


def make(out: str, kind: str) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(KINDS[kind](), dtype=torch.bfloat16)
    for name, parameter in model.named_parameters():  # norms too, so that any misplaced element shows
        if parameter.dim() == 1:
            parameter.data.uniform_(0.5, 1.5)
    directory = os.path.join(out, kind)
    model.save_pretrained(directory)
    tokenizer().save_pretrained(directory)


if __name__ == "__main__":
    for kind in sys.argv[2:]:
        make(sys.argv[1], kind)
