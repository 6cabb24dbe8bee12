"""What the ranks of sharded_test.py run, each in a process of its own:

    python sharded_ranks.py JOB RANK RANKS PORT FOLDER

A job writes what it found to FOLDER/JOB-RANK.json; FOLDER/base is the checkpoint that the model begins with.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

import skerry
from skerry.errors import SkerryError

RUN = "r"
WIDTH, LAYERS, VOCABULARY = 64, 4, 300


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=True)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    """Sizes that four ranks do not divide: 300 rows, a bias of 10, a scalar."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 10)
        self.scale = nn.Parameter(torch.tensor([1.0]))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x) * self.scale


def make_model(seed=0):
    torch.manual_seed(seed)
    return Model()


def nudge(model, seed):
    """A step that depends on places only, so that it is the same for every way of sharding."""
    with torch.no_grad():
        for at, (_, parameter) in enumerate(model.named_parameters()):
            whole = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1000 * seed + at)) * 1e-4
            if isinstance(parameter, DTensor):
                whole = distribute_tensor(whole, parameter.device_mesh, parameter.placements)
            parameter.add_(whole)


def sharded(model):
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


class Job:
    def __init__(self, rank, ranks, folder):
        self.rank, self.ranks, self.folder = rank, ranks, Path(folder)

    def publisher(self, name="state", **more):
        return skerry.Publisher(
            self.folder / "board", RUN, base=self.folder / "base", state=self.folder / name, group=dist.group.WORLD,
            threads=1, **more,
        )  # fmt: skip

    def model(self):
        model = make_model()
        model.load_state_dict({name: tensor.float() for name, tensor in load_file(self.folder / "base" / "model.safetensors").items()})
        return model

    # Jobs: what they return is written down.

    def versions(self):
        """Three steps; version 2 by publish_async, with the weights overwritten at once."""
        model = sharded(self.model())
        receipts = []
        with self.publisher() as publisher:
            for step in range(1, 4):
                nudge(model, step)
                if step == 2:
                    handle = publisher.publish_async(model, step=step)
                    held = [parameter.to_local().clone() for parameter in model.parameters()]
                    with torch.no_grad():
                        for parameter in model.parameters():
                            parameter.to_local().zero_()
                    receipts.append(handle.result())
                    with torch.no_grad():
                        for parameter, values in zip(model.parameters(), held, strict=True):
                            parameter.to_local().copy_(values)
                else:
                    receipts.append(publisher.publish(model, step=step))
            again = publisher.publish(model)
        return {
            "receipts": [[one.version, one.published, one.changed, one.model, one.warning] for one in receipts],
            "again": again.published,
        }

    def restart(self):
        """Goes on after `versions`, with the snapshots that it left."""
        model = sharded(self.model())
        for step in range(1, 5):
            nudge(model, step)
        with self.publisher() as publisher:
            receipt = publisher.publish(model, step=4)
        return [receipt.version, receipt.changed]

    def failing(self):
        """F11: the last rank fails while it reads its weights, then while it stores its part; then all is well."""
        model = sharded(self.model())
        told = []
        with self.publisher() as publisher:
            nudge(model, 1)
            bad = dict(model.named_parameters())
            if self.rank == self.ranks - 1:
                bad["embed.weight"] = "no tensor"
            told.append(error_of(lambda: publisher.publish(bad)))
            told.append(error_of(lambda: publish_with_lost_snapshot(publisher, model, self.rank == self.ranks - 1)))
            receipt = publisher.publish(model)
        return {"told": told, "version": receipt.version, "changed": receipt.changed}

    def differing(self):
        """F6: rank 0 sees a change in one tensor only, the last rank in another only."""
        model = sharded(self.model())
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            if self.rank == 0:
                parameters["embed.weight"].to_local()[0, 0] += 1
            if self.rank == self.ranks - 1:
                parameters["layers.0.up.weight"].to_local()[-1, -1] += 1
        with self.publisher() as publisher:
            receipt = publisher.publish(model)
        return [receipt.version, receipt.changed, receipt.tensors_changed]

    def placements(self):
        """Rows, columns, replicas, a mesh of two axes, and what is refused."""
        base = load_file(self.folder / "base" / "model.safetensors")
        mesh = init_device_mesh("cpu", (self.ranks,))
        plane = init_device_mesh("cpu", (2, self.ranks // 2)) if self.ranks >= 4 else None
        weights = {}
        for at, (name, tensor) in enumerate(sorted(base.items())):
            tensor = tensor.float() + (1 if at % 3 == 0 else 0)
            if tensor.dim() == 2 and at % 2 == 0 and tensor.shape[1] % (4 * self.ranks) == 0:
                tensor = distribute_tensor(tensor, mesh, [Shard(1)])
            elif tensor.dim() == 2 and plane is not None:
                tensor = distribute_tensor(tensor, plane, [Replicate(), Shard(0)])
            elif tensor.dim() == 2:
                tensor = distribute_tensor(tensor, mesh, [Shard(0)])
            elif at % 2 == 0:
                tensor = distribute_tensor(tensor, mesh, [Replicate()])
            weights[name] = tensor
        partial = dict(weights)
        partial["embed.weight"] = DTensor.from_local(base["embed.weight"].float(), mesh, [Partial()])
        with self.publisher() as publisher:
            refused = error_of(lambda: publisher.publish(partial))
            receipt = publisher.publish(weights)
        return {"refused": refused, "version": receipt.version, "tensors_changed": receipt.tensors_changed}

    def names(self):
        """F13, over ranks: what no rank gives is missing; frozen tensors stay."""
        model = sharded(self.model())
        some = {name: tensor for name, tensor in model.named_parameters() if not name.startswith("head")}
        nudge(model, 1)
        with self.publisher() as publisher:
            missing = error_of(lambda: publisher.publish(some))
        with self.publisher(frozen=["head.*"]) as publisher:
            receipt = publisher.publish(some)
        # Stages of a pipeline: every rank gives other tensors.
        mine = {name: tensor.full_tensor() for name, tensor in model.named_parameters()}
        mine = {name: tensor for at, (name, tensor) in enumerate(mine.items()) if at % self.ranks == self.rank}
        with torch.no_grad():
            for tensor in mine.values():
                tensor.add_(0.5)
        with self.publisher() as publisher:
            staged = publisher.publish(mine)
        return {"missing": missing, "version": receipt.version, "staged": [staged.version, staged.tensors_changed]}

    def memory(self):
        """The peak of a publish, over what there was before, of a model whose shards are far larger than a piece."""
        base = self.folder / "base" / "model.safetensors"
        mesh = init_device_mesh("cpu", (self.ranks,))
        from safetensors import safe_open

        weights = {}
        with safe_open(base, "pt") as file:
            for name in file.keys():
                piece = file.get_slice(name)
                rows = piece.get_shape()[0] // self.ranks
                local = piece[self.rank * rows : (self.rank + 1) * rows].float()
                local.view(-1)[:: 199] += 0.01
                weights[name] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False)
        before = anonymous_bytes()
        peak = Peak()
        with self.publisher() as publisher:
            receipt = publisher.publish(weights)
        return {"extra": peak.stop() - before, "version": receipt.version, "local": sum(t.to_local().nbytes for t in weights.values())}


def publish_with_lost_snapshot(publisher, model, lose):
    """The capture is made; then this rank loses the snapshot that it is against."""
    encode = publisher._core.publish

    def publish(capture, **arguments):
        if lose:
            publisher._core._writer.drop()
        return encode(capture, **arguments)

    publisher._core.publish = publish
    try:
        return publisher.publish(model)
    finally:
        publisher._core.publish = encode


def error_of(work):
    try:
        return ["none", repr(work())]
    except SkerryError as error:
        return [type(error).__name__, str(error)]


def anonymous_bytes():
    """Memory of this process that is no file's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


class Peak:
    """The most anonymous memory that was seen, looked at every 2 ms."""

    def __init__(self):
        import threading

        self._most, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._stop.wait(0.002):
            self._most = max(self._most, anonymous_bytes())

    def stop(self):
        self._stop.set()
        self._thread.join()
        return self._most


def main():
    job, rank, ranks, port, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60)
    )
    try:
        found = getattr(Job(rank, ranks, folder), job)()
        Path(folder, f"{job}-{rank}.json").write_text(json.dumps(found))
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
