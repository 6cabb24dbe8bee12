"""A real GRPOTrainer that samples by itself and publishes: what TRL adds to transformers' Trainer does not get in the
way.
"""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

from published import pulled, same  # noqa: E402
from skerry.trl import PublishCallback, rollout_func  # noqa: E402


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A tiny Qwen3 in bf16 with a byte tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: index for index, word in enumerate(["<pad>", "<end>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(words, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, tie_word_embeddings=True, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models") / "qwen3"
    transformers.Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>"
    ).save_pretrained(folder)
    return folder


def trainer(base, folder, callback, **more):
    arguments = trl.GRPOConfig(
        str(folder / "out"), max_steps=2, max_completion_length=6, num_generations=4, per_device_train_batch_size=8,
        learning_rate=1e-2, use_cpu=True, bf16=False, report_to=[], save_strategy="no", disable_tqdm=True,
        logging_steps=1,
    )  # fmt: skip
    return trl.GRPOTrainer(
        model=str(base),
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        args=arguments,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["ab", "cde", "f", "gh"]}),
        callbacks=[callback],
        **more,
    )


def served(model):
    names = {name for name, _ in model.named_parameters()}
    return {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items() if name in names}


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_that_samples_by_itself_publishes_every_step(base, tmp_path):
    callback = PublishCallback(tmp_path / "board", run="grpo-1", state=tmp_path / "state")
    run = trainer(base, tmp_path, callback)
    run.train()
    assert [(one.version, one.step) for one in callback.receipts if one.published] == [(1, 1), (2, 2)]
    assert same(pulled(tmp_path / "board", "grpo-1", tmp_path / "island"), served(run.model))
    assert any("skerry/density" in entry for entry in run.state.log_history)


@pytest.mark.filterwarnings("ignore")
def test_rollouts_ask_for_the_versions_that_the_trainers_own_callback_published(base, tmp_path, start):
    from scripted_agent import answer, stamped

    def engine(request):
        if request.path == "/v1/models":
            return answer({"data": [{"id": "m"}]})
        least = int(request.headers["skerry-min-version"])
        choices = [
            {"index": n, "token_ids": [10 + n, 20 + 2 * n], "logprobs": {"token_logprobs": [-1.0, -2.0]}}
            for n in range(request.json["n"])
        ]
        return stamped({"choices": choices}, least, least)

    agent = start(engine)
    callback = PublishCallback(tmp_path / "board", run="grpo-1", state=tmp_path / "state")
    rollouts = rollout_func(agent.url, staleness=0)
    run = trainer(base, tmp_path, callback, rollout_func=rollouts)
    run.reward_funcs[0] = lambda completion_ids, **_: [float(sum(ids)) for ids in completion_ids]
    run.train()
    # Strictly on-policy: the second step's completions are of the version that the first one made.
    assert [(one.step, one.min_version, one.version_start) for one in rollouts.records][::2] == [(0, 0, 0), (1, 1, 1)]
    assert [one.version for one in callback.receipts if one.published] == [1, 2]
    rollouts.close()
