"""A stand-in for vLLM 0.32 (CPU build): its control routes with their replies and traps, no torch.

  python vllm_contract.py --model DIR [--port P] [--plugin] [--workers N] [--token-ms T]

prints its port. Traps: every .safetensors file of a directory without an index is read; a reload leaves the experts and
a tied embedding as they were packed at the start (only the plugin packs them again); it does not touch the prefix
cache; the cache can't be reset while running requests hold blocks. With --plugin the workers answer its
remote calls.
"""

import json
import threading

import numpy

from contract_base import Contract, Refused, arguments, digest_of, read_safetensors, read_typed, run

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
         "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}  # fmt: skip


class Worker:
    """What one worker's part of the plugin knows. The tensors are shared: this engine has one copy."""

    def __init__(self, rank, start):
        self.rank, self.instance = rank, f"{start:x}-{rank}"
        self.label, self.prepared, self.state, self.error, self.staged = "", "", "idle", "", None

    def facts(self, ok=True, error="", label=None):
        return {"ok": ok, "error": error, "label": self.label if label is None else label, "instance": self.instance,
                "prepared": self.prepared, "state": self.state, "device": "cpu", "rank": self.rank,
                "unsupported": "", "seconds": 0.0}  # fmt: skip


class VllmContract(Contract):
    def __init__(self, model, plugin=False, workers=1, token_seconds=0.0):
        self.plugin, self.count = plugin, workers
        super().__init__(model, token_seconds)

    def boot(self):
        super().boot()
        self.mode = ""
        self.packed = self.pack()
        self.workers = [Worker(rank, self.starts) for rank in range(self.count)]

    def pack(self):
        """Copies that the CPU build makes at its first load: experts, and the head that shares a tied embedding."""
        config = self.model / "config.json"
        tied = config.exists() and json.loads(config.read_text()).get("tie_word_embeddings", False)
        return {
            name: value
            for name, value in self.tensors.items()
            if ".experts." in name or (tied and name.endswith("embed_tokens.weight"))
        }

    def served(self):
        return digest_of({**self.tensors, **self.packed})

    def draining(self):
        return self.mode == "wait" and self.running > 0

    def control(self, method, path, query, body, partial):
        reads = {
            "/health": dict,
            "/version": lambda: {"version": "0.32.0"},
            "/is_paused": lambda: {"is_paused": self.paused},
            "/is_sleeping": lambda: {"is_sleeping": self.asleep},
            "/weight_info": lambda: {"weight_version": self.label},
            "/get_world_size": lambda: {"world_size": self.count},
            "/v1/models": lambda: {"object": "list", "data": [{"id": "m", "root": str(self.model)}]},
            "/server_info": lambda: {"vllm_config": {"device_config": {"device_type": "cpu"}}},
        }
        if method == "GET" and path in reads:
            return 200, reads[path]()
        if (method, path) == ("GET", "/metrics"):
            return 200, f"# TYPE a gauge\nprocess_start_time_seconds {self.started + self.starts}\n".encode()
        if method != "POST":
            return 404, {"detail": "Not Found"}
        calls = {
            "/pause": lambda: self.pause(query.get("mode", "abort")),
            "/resume": self.resume,
            "/sleep": lambda: self.sleep(query.get("level", "1")),
            "/wake_up": self.wake_up,
            "/reset_prefix_cache": lambda: self.reset_cache(query.get("reset_running_requests") == "true"),
            "/reset_encoder_cache": lambda: None,
            "/update_weight_version": lambda: self.set_label(body["new_version"]),
            "/weight_checker": lambda: {"checksums": {"dp0:pp0:pcp0:tp0:all": self.served()}},
            "/collective_rpc": lambda: self.rpc(body["method"], body.get("kwargs", {}), partial),
        }
        return (200, calls[path]()) if path in calls else (404, {"detail": "Not Found"})

    def pause(self, mode):
        self.paused, self.mode = True, mode
        if mode == "abort":
            self.end_requests()
        if mode == "wait":
            self.lock.notify_all()
            while self.running and self.paused:
                self.lock.wait()
        self.wait_for_tokens_in_hand()
        return {"status": "paused"}

    def resume(self):
        self.paused, self.mode = False, ""
        return {"status": "resumed"}

    def sleep(self, level):
        self.asleep = True
        if level == "2":  # the weights are given up
            self.tensors = {name: bytes(len(value)) for name, value in self.tensors.items()}
            self.packed = {name: self.tensors[name] for name in self.packed}
        return {"status": "sleeping", "level": int(level)}

    def wake_up(self):
        self.asleep = False
        return {"status": "awake", "tags": None}

    def reset_cache(self, running_too):
        if self.running and not running_too:
            return {"success": False}
        self.reset_blocks()
        return {"success": True}

    def set_label(self, label):
        self.label = label
        return {"success": True, "new_version": label}

    # Remote calls

    def rpc(self, method, kwargs, partial):
        if self.asleep:
            raise Refused(500, {"error": "the engine is asleep"})
        if method == "reload_weights":
            self.load(kwargs["weights_path"], partial)
            return {"results": [None] * self.count}
        if not self.plugin or not method.startswith("skerry_"):
            raise Refused(500, {"error": f"no method {method}"})
        if method == "skerry_commit":
            return {"results": self.commit(kwargs["label"], partial)}
        call = {"skerry_status": self.worker_status, "skerry_prepare": self.worker_prepare,
                "skerry_prepared": self.worker_prepared, "skerry_verify": self.worker_verify}[method]  # fmt: skip
        return {"results": [call(worker, **kwargs) for worker in self.workers]}

    def worker_status(self, worker):
        return worker.facts()

    def worker_prepare(self, worker, label, base, checkpoint, positions):
        if positions and base != worker.label:
            return worker.facts(False, f"changes to '{base}', but the worker serves '{worker.label}'", label)
        worker.state, worker.prepared, worker.error = "preparing", label, ""
        threading.Thread(target=self.stage, args=(worker, label, checkpoint, positions), daemon=True).start()
        return worker.facts(label=label)

    def stage(self, worker, label, checkpoint, positions):
        """Reads beside serving: name -> what the tensor will be."""
        staged, error = {}, ""
        try:
            new = read_typed(checkpoint)
            staged = self.changed(positions, new) if positions else {name: raw for name, (_, raw) in new.items()}
        except (OSError, KeyError, ValueError, IndexError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        with self.lock:
            if worker.prepared == label:
                worker.staged, worker.error, worker.state = staged, error, "failed" if error else "prepared"

    def changed(self, positions, new):
        """The touched tensors, with the named elements from the checkpoint and all others as they are served."""
        staged = {}
        for name, (index_type, raw) in read_safetensors(positions).items():
            dtype, values = new[name]
            unit = f"V{SIZES[dtype]}"
            indices = numpy.frombuffer(raw, "<u4" if index_type == "U32" else "<u8")
            tensor = numpy.frombuffer(self.tensors[name], unit).copy()
            tensor[indices] = numpy.frombuffer(values, unit)[indices]
            staged[name] = tensor.tobytes()
        return staged

    def worker_prepared(self, worker, label):
        if worker.prepared != label:
            return worker.facts(False, f"'{worker.prepared}' is prepared, not '{label}'", label)
        return worker.facts(worker.state != "failed", worker.error, label)

    def commit(self, label, partial):
        if all(worker.label == label for worker in self.workers):
            return [worker.facts() for worker in self.workers]
        if any((worker.prepared, worker.state) != (label, "prepared") for worker in self.workers):
            return [worker.facts(False, f"'{label}' is not prepared") for worker in self.workers]
        staged = self.workers[0].staged
        names = sorted(staged)[: len(staged) // 2] if partial else sorted(staged)
        for name in names:
            self.tensors[name] = staged[name]
            if name in self.packed:
                self.packed[name] = staged[name]
        for worker in self.workers:
            worker.prepared, worker.staged = "", None
            worker.state, worker.label = ("uncertain", "?") if partial else ("idle", label)
        error = "the commit failed half way" if partial else ""
        return [worker.facts(not partial, error) for worker in self.workers]

    def worker_verify(self, worker, label):
        return worker.facts(worker.label == label, "" if worker.label == label else f"serves '{worker.label}'")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--plugin", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    run(VllmContract(given.model, given.plugin, given.workers, given.token_ms / 1000), given.port)


if __name__ == "__main__":
    main()
