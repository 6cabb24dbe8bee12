"""A vLLM server for tests and benches: start, JSON calls, the plugin's calls, stop by process id."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

QUIET = {
    "VLLM_SERVER_DEV_MODE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
PLUGIN = ["--weight-transfer-config", '{"backend":"skerry"}', "--worker-extension-cls", "skerry.vllm.WorkerExtension"]
# oneDNN refuses bf16 below AVX-512, and vLLM then multiplies with the plain weight: the same as on an AVX2 machine.
UNPACKED = {"ONEDNN_MAX_CPU_ISA": "AVX2"}


class Refused(Exception):
    """An answer other than 200."""


class Server:
    def __init__(self, python, model, log, plugin=True, dtype="bfloat16", environment=None, arguments=(), timeout=300):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--served-model-name", "m", "--dtype", dtype, "--max-model-len", "512"]
        command += ["--max-num-seqs", "8", "--max-logprobs", "20", "--seed", "0", "--kv-cache-memory-bytes", "67108864"]
        command += ["--enforce-eager", *(PLUGIN if plugin else []), *arguments]
        self.log = open(log, "w")
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, **QUIET, **(environment or {})},
            start_new_session=True,
        )
        started = time.monotonic()
        while not self._healthy():
            if self.process.poll() is not None or time.monotonic() - started > timeout:
                self.stop()
                with open(log) as f:
                    raise RuntimeError(f"vLLM did not start:\n{f.read()[-4000:]}")
            time.sleep(0.5)
        self.start_seconds = time.monotonic() - started

    def _healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as r:
                return r.status == 200
        except OSError:
            return False

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def call(self, path, body=None, method="POST"):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as r:
                text = r.read()
        except urllib.error.HTTPError as e:
            raise Refused(f"{path}: {e.code} {e.read()[:500]!r}") from e
        return json.loads(text) if text else {}

    def rpc(self, method, **kwargs):
        return self.call("/collective_rpc", {"method": method, "kwargs": kwargs})["results"][0]

    def prepare(self, label, base, checkpoint, positions):
        answer = self.rpc("skerry_prepare", label=label, base=base, checkpoint=checkpoint, positions=positions)
        while answer["ok"] and answer["state"] == "preparing":
            time.sleep(0.02)
            answer = self.rpc("skerry_prepared", label=label)
        return answer

    def move(self, label, checkpoint, base="", positions=""):
        """Prepare, pause, commit, forget caches, verify, go on. Returns commit's and verify's answers."""
        answer = self.prepare(label, base, checkpoint, positions)
        assert answer["ok"], answer
        self.call("/pause?mode=keep")
        commit = self.rpc("skerry_commit", label=label)
        assert commit["ok"], commit
        self.call("/reset_prefix_cache")
        verify = self.rpc("skerry_verify", label=label)
        assert verify["ok"], verify
        self.call("/resume")
        return commit, verify

    def reload_stock(self, checkpoint):
        self.call("/pause?mode=keep")
        self.rpc("reload_weights", weights_path=checkpoint)
        self.call("/reset_prefix_cache")
        self.call("/resume")

    def checksums(self):
        return self.call("/weight_checker", {"action": "checksum"})["checksums"]

    def answers(self):
        """What tells two weights apart: greedy tokens and the logprobs of prompt and tokens."""
        out = []
        for seed in range(3):
            prompt = [(7 * seed + 13 * i * i + i) % 400 + 4 for i in range(24)]
            reply = self.call("/v1/completions", {
                "model": "m", "prompt": prompt, "max_tokens": 16, "temperature": 0, "logprobs": 1, "prompt_logprobs": 1,
                "return_token_ids": True, "ignore_eos": True,
            })
            choice = reply["choices"][0]
            prompt_logprobs = [p[str(t)]["logprob"] for p, t in zip(choice["prompt_logprobs"][1:], prompt[1:])]
            out.append((choice["token_ids"], choice["logprobs"]["token_logprobs"], prompt_logprobs))
        return out
