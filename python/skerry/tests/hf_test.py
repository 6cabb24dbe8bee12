"""PublishCallback in real Trainers on the CPU, with a tiny Llama."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from safetensors.torch import load_file  # noqa: E402

from published import pulled, same  # noqa: E402
from skerry import Board, Publisher  # noqa: E402
from skerry.errors import Invalid, NotFound, Unavailable  # noqa: E402
from skerry.hf import PublishCallback, loaded_from  # noqa: E402
from skerry.names import NamesDiffer  # noqa: E402


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A checkpoint in bf16, with a tied head."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, tie_word_embeddings=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models") / "llama"
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.arange(index, index + 12) % 64
        return {"input_ids": ids, "labels": ids}


class Served(transformers.TrainerCallback):
    """What should have been published after each step: torch's own rounding of the masters."""

    def __init__(self):
        self.of_step = {}

    def on_step_end(self, args, state, control, model=None, **_):
        self.of_step[state.global_step] = tensors_of(model)


def tensors_of(model):
    names = {name for name, _ in model.named_parameters()}
    return {name: tensor.detach().to(torch.bfloat16) for name, tensor in model.state_dict().items() if name in names}


def trainer(base, folder, *callbacks, steps=3, model=None, **arguments):
    arguments = {
        "output_dir": str(folder / "out"), "max_steps": steps, "per_device_train_batch_size": 4, "learning_rate": 1e-3,
        "logging_steps": 1, "report_to": [], "save_strategy": "no", "use_cpu": True, "disable_tqdm": True,
        "bf16": False,
    } | arguments  # fmt: skip
    model = model or transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return transformers.Trainer(
        model, transformers.TrainingArguments(**arguments), train_dataset=Tokens(), callbacks=list(callbacks)
    )


@pytest.mark.parametrize("wait", [False, True])
def test_every_step_is_a_version_and_islands_get_its_bits(base, tmp_path, wait):
    told, expected = [], Served()
    callback = PublishCallback(tmp_path / "board", "sft-1", wait=wait, on_publish=told.append, state=tmp_path / "state")
    trainer(base, tmp_path, expected, callback).train()
    assert [(one.version, one.step) for one in callback.receipts if one.published] == [(1, 1), (2, 2), (3, 3)]
    assert told == callback.receipts and told[0].published is False  # at the beginning it was the base
    for version in (1, 2, 3):
        assert same(
            pulled(tmp_path / "board", "sft-1", tmp_path / f"island-{version}", version), expected.of_step[version]
        )


def test_version_0_is_the_checkpoint_that_the_model_was_loaded_from(base, tmp_path):
    callback = PublishCallback(tmp_path / "board", "sft-1", state=tmp_path / "state")
    trainer(base, tmp_path, callback, steps=1).train()
    assert same(pulled(tmp_path / "board", "sft-1", tmp_path / "island", 0), load_file(base / "model.safetensors"))


def test_the_trainers_log_has_the_figures(base, tmp_path):
    callback = PublishCallback(tmp_path / "board", "sft-1", wait=True, state=tmp_path / "state")
    run = trainer(base, tmp_path, callback)
    run.train()
    steps = [entry for entry in run.state.log_history if "loss" in entry]
    assert [entry["skerry/version"] for entry in steps] == [1, 2, 3]
    for entry, receipt in zip(steps, callback.receipts[1:], strict=True):
        assert entry["skerry/density"] == receipt.density > 0
        assert entry["skerry/patch_bytes"] == receipt.patch_bytes > 0
        assert entry["skerry/seconds"] > 0 and "skerry/capture_seconds" in entry


def test_every_second_step_and_the_last_one_are_published(base, tmp_path):
    expected = Served()
    callback = PublishCallback(tmp_path / "board", "sft-1", every=2, state=tmp_path / "state")
    trainer(base, tmp_path, expected, callback, steps=5).train()
    assert [(one.version, one.step) for one in callback.receipts if one.published] == [(1, 2), (2, 4), (3, 5)]
    assert same(pulled(tmp_path / "board", "sft-1", tmp_path / "island"), expected.of_step[5])


def test_a_training_that_resumes_goes_on_with_the_run(base, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 2, "steps": 3}
    trainer(base, tmp_path, PublishCallback(tmp_path / "board", "sft-1", state=tmp_path / "s"), **options).train()
    # It was at step 3 and had saved step 2. Another machine takes over from there.
    expected = Served()
    callback = PublishCallback(tmp_path / "board", "sft-1", state=tmp_path / "s2")
    trainer(base, tmp_path, expected, callback, **options).train(
        resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2")
    )
    assert [(one.version, one.step) for one in callback.receipts if one.published] == [(4, 2), (5, 3)]
    assert same(pulled(tmp_path / "board", "sft-1", tmp_path / "island"), expected.of_step[3])


def test_names_that_do_not_fit_end_training_before_its_first_step(base, tmp_path):
    config = transformers.AutoConfig.from_pretrained(base)
    config.num_hidden_layers = 1
    seen = Served()
    callback = PublishCallback(tmp_path / "board", "sft-1", base=base, state=tmp_path / "state")
    with pytest.raises(NamesDiffer, match="not given: model.layers.1"):
        trainer(base, tmp_path, seen, callback, model=transformers.AutoModelForCausalLM.from_config(config)).train()
    assert seen.of_step == {}


def test_adapters_are_published_merged(base, tmp_path):
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(
        transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        peft.LoraConfig(target_modules=["q_proj", "down_proj"], r=2),
    )
    callback = PublishCallback(tmp_path / "board", "lora-1", state=tmp_path / "state")
    trainer(base, tmp_path, callback, model=model, steps=2, learning_rate=0.1).train()
    assert callback.receipts[-1].version == 2
    assert same(pulled(tmp_path / "board", "lora-1", tmp_path / "island"), tensors_of(model.merge_and_unload()))


class Flaky:
    """A publisher that cannot reach its board for the next `failing` publishes."""

    def __init__(self, publisher):
        self.failing = 0
        self._real, publisher._publish = publisher._publish, self._publish

    def _publish(self, *arguments):
        if self.failing:
            self.failing -= 1
            raise Unavailable("the board can't be reached")
        return self._real(*arguments)


def test_a_trainer_that_trains_twice_goes_on(base, tmp_path):
    callback = PublishCallback(tmp_path / "board", "sft-1", state=tmp_path / "state")
    run = trainer(base, tmp_path, callback, steps=1)
    run.train()
    assert callback.publisher.closed and callback.publisher.version == 1
    run.train()
    assert callback.receipts[-1].version == 2
    assert same(pulled(tmp_path / "board", "sft-1", tmp_path / "island"), tensors_of(run.model))


@pytest.mark.parametrize("wait", [False, True])
def test_a_board_that_is_away_for_some_steps_does_not_end_training(base, tmp_path, wait):
    expected = Served()
    with Publisher(tmp_path / "board", "sft-1", base=base, state=tmp_path / "state") as publisher:
        flaky = Flaky(publisher)

        class Away(transformers.TrainerCallback):
            def on_step_begin(self, args, state, control, **_):
                if state.global_step == 1:
                    flaky.failing = 2

        callback = PublishCallback(publisher, wait=wait, patience=2)
        trainer(base, tmp_path, expected, Away(), callback, steps=6).train()
        assert callback.receipts[-1].step == 6
        assert same(pulled(tmp_path / "board", "sft-1", tmp_path / "island"), expected.of_step[6])
        assert flaky.failing == 0


def test_a_board_that_stays_away_ends_it_once_the_patience_is_over(base, tmp_path):
    with Publisher(tmp_path / "board", "sft-1", base=base, state=tmp_path / "state") as publisher:
        flaky, seen = Flaky(publisher), Served()

        class Away(transformers.TrainerCallback):
            def on_step_begin(self, args, state, control, **_):
                if state.global_step == 1:
                    flaky.failing = 100

        with pytest.raises(Unavailable):
            trainer(base, tmp_path, seen, Away(), PublishCallback(publisher, wait=True, patience=2), steps=9).train()
        assert max(seen.of_step) == 4  # two failures were borne, at steps 2 and 3
        flaky.failing = 0


def test_only_the_main_process_publishes(base, tmp_path):
    callback = PublishCallback(tmp_path / "board", "sft-1", state=tmp_path / "state")
    run = trainer(base, tmp_path, callback)
    run.state.is_world_process_zero = False
    for event in (callback.on_train_begin, callback.on_step_end, callback.on_train_end):
        event(run.args, run.state, run.control, model=run.model)
    assert callback.publisher is None and not (tmp_path / "board").exists()


def test_where_a_model_was_loaded_from(base):
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    assert loaded_from(model) == str(base)
    assert loaded_from(torch.compile(model, backend="eager")) == str(base)
    assert loaded_from(
        transformers.AutoModelForCausalLM.from_config(model.config.__class__(**model.config.to_dict()))
    ) in (None, str(base))
    assert loaded_from(torch.nn.Linear(1, 1)) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("", "r"), "^publisher: "),
        ((None, "r"), "^publisher: "),
        (("s3://", "r"), "^board: "),
        (("board",), "^run: "),
        (("board", ""), "^run: "),
    ],
)
def test_J2_arguments_that_make_no_sense_are_refused_when_it_is_made(arguments, says):
    with pytest.raises(Invalid, match=says):
        PublishCallback(*arguments)
    with pytest.raises(Invalid, match="^every: 0"):
        PublishCallback("board", "r", every=0)
    with pytest.raises(Invalid, match="^patience: -1"):
        PublishCallback("board", "r", patience=-1)
    with pytest.raises(TypeError, match="levle"):
        PublishCallback("board", "r", levle="fast")


def test_J2_a_publisher_has_its_own_run_and_options(base, tmp_path):
    with Publisher(tmp_path / "board", "r", base=base, state=tmp_path / "state") as publisher:
        with pytest.raises(Invalid, match="^run: "):
            PublishCallback(publisher, "r")
        with pytest.raises(Invalid, match="^level: "):
            PublishCallback(publisher, level="fast")


def test_a_model_without_a_checkpoint_needs_a_base(base, tmp_path):
    class Plain(torch.nn.Module):
        pass

    callback = PublishCallback(tmp_path / "board", "r", state=tmp_path / "state")
    run = trainer(base, tmp_path, callback)
    with pytest.raises(NotFound, match="base="):
        callback.on_train_begin(run.args, run.state, run.control, model=Plain())
    with pytest.raises(NotFound):
        Board(tmp_path / "board").head("r")
