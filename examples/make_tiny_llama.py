"""Make a tiny base model in a second: a random Llama and a tokenizer trained on the spot.

    python examples/make_tiny_llama.py OUT_DIR

For trying things out where what the model says does not matter: its answers are noise, but its
training, its bf16 view and its patches are as real as a big model's. The same versions of the
libraries give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PAD, END, START = "<|pad|>", "<|im_end|>", "<|im_start|>"
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = [
    "What is 17 + 25? Reply with only the number.",
    "A sparse patch carries few bytes from the trainer to an island.",
    "user assistant system",
    "0123456789 + - = ( ) , . ; : ! ?",
]
VOCABULARY = 512


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE: every text can be encoded, and it needs no download."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, END, START],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(TEXT, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token=PAD, eos_token=END)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """3.3 million bf16 weights, normal with Llama's usual deviation of 0.02."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).to(torch.bfloat16)


def make(out: Path) -> None:
    """Write the checkpoint directory `out`, replacing it; it appears complete or not at all."""
    unfinished = out.with_name(out.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    shutil.rmtree(out, ignore_errors=True)
    unfinished.rename(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    transformers.logging.disable_progress_bar()
    make(parser.parse_args().out)
