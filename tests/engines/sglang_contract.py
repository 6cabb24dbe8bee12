"""A stand-in for SGLang: its control routes with their replies and traps.

  python sglang_contract.py --model DIR [--port P] [--token-ms T] [--token SECRET] [--caches-files]

prints its port. Traps: "abort_all_requests" is true unless told otherwise where a label is set; "flush_cache": true in
the switch kills the scheduler (500, and every call after it) while requests keep their place; /flush_cache is a 400
while requests run; with --caches-files a path that was loaded before is not read again.
"""

from contract_base import Contract, Refused, arguments, read_checkpoint, run


class SglangContract(Contract):
    def __init__(self, model, token_seconds=0.0, token="", caches_files=False):
        self.token, self.caches_files = token, caches_files
        super().__init__(model, token_seconds)

    def boot(self):
        super().boot()
        self.dead, self.retracted, self.files = False, False, {}

    def authorized(self, header):
        return not self.token or header == f"Bearer {self.token}"

    def control(self, method, path, query, body, partial):
        if self.dead:
            raise Refused(500, {"error": "the scheduler is dead"})
        if method == "GET":
            reads = {
                "/health": None,
                "/model_info": {"model_path": str(self.model), "weight_version": self.label},
                "/server_info": {"version": "0.5", "tp_size": 1, "device": "cuda"},
                "/metrics": f"process_start_time_seconds {self.started + self.starts}\n".encode(),
            }
            return (200, reads[path]) if path in reads else (404, {"detail": "Not Found"})
        calls = {
            "/pause_generation": lambda: self.pause(body.get("mode", "abort")),
            "/continue_generation": self.go_on,
            "/flush_cache": self.flush,
            "/update_weight_version": lambda: self.set_label(body),
            "/update_weights_from_disk": lambda: self.update(body, partial),
            "/weights_checker": lambda: {"success": True, "checksums": {"all": self.served()}},
        }
        return (200, calls[path]()) if path in calls else (404, {"detail": "Not Found"})

    def pause(self, mode):
        self.paused, self.retracted = True, mode == "retract"
        if mode == "abort":
            self.end_requests()
            while self.running:
                self.lock.wait()
        self.wait_for_tokens_in_hand()
        return {"status": "ok", "message": "Generation paused successfully."}

    def go_on(self):
        self.paused, self.retracted = False, False
        return {"status": "ok", "message": "Generation continued successfully."}

    def flush(self):
        if self.running and not self.retracted:
            raise Refused(400, b"Cache not flushed because there are pending requests.\n")
        self.reset_blocks()
        return b"Cache flushed.\n"

    def set_label(self, body):
        if body.get("abort_all_requests", True):
            self.end_requests()
        self.label = body["new_version"]
        return {"success": True, "message": "ok", "new_version": self.label}

    def update(self, body, partial):
        if body.get("flush_cache", True) and self.running:
            self.dead = True
            raise Refused(500, {"error": "assertion in the scheduler"})
        if body.get("abort_all_requests", False):
            self.end_requests()
        path = body["model_path"]
        try:
            if self.caches_files and path in self.files:
                self.tensors = dict(self.files[path])
            else:
                self.load(path, partial)
                self.files[path] = read_checkpoint(path)
        except (OSError, Refused) as failure:
            answer = {"success": False, "message": str(failure), "num_paused_requests": self.running}
            raise Refused(400, answer) from failure
        self.label = body.get("weight_version") or self.label
        return {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": self.running}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--token", default="", help="what Authorization: Bearer must say on control routes")
    parser.add_argument("--caches-files", action="store_true")
    given = parser.parse_args()
    run(SglangContract(given.model, given.token_ms / 1000, given.token, given.caches_files), given.port)


if __name__ == "__main__":
    main()
