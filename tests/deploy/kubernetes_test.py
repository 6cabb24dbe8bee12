"""The manifests of deploy/kubernetes: valid by Kubernetes' own schemas, whole, and their commands run."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from agent_process import request, wait_for
from contract_base import digest_of_checkpoint
from manifests import KUBERNETES, ROOT, Applied, expanded, read
from program import BINARY, environment

SCHEMA = "1.33"
ISLANDS = sorted(path.name for path in (KUBERNETES / "islands").iterdir())


@pytest.fixture(scope="module")
def applied():
    """The example, with the islands of every engine."""
    made = read()
    there = {one["metadata"]["name"] for one in made.objects}
    for island in ISLANDS:
        if f"island-{island}" not in there:
            read(KUBERNETES / "islands" / island, made)
    return made


def test_every_object_is_valid(applied):
    kinds = set()
    for made in applied.objects:
        kubernetes_validate.validate(made, SCHEMA, strict=True)
        kinds.add(made["kind"])
    assert kinds == {
        "Namespace", "StatefulSet", "Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"
    }  # fmt: skip


def test_an_unknown_field_would_be_found(applied):
    wrong = yaml.safe_load(yaml.safe_dump(applied.workload("gateway")))
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readynessProbe"):
        kubernetes_validate.validate(wrong, SCHEMA, strict=True)


def test_every_file_is_used():
    seen = read()
    for island in ISLANDS:
        read(KUBERNETES / "islands" / island, seen)
    named = {path for file in KUBERNETES.rglob("kustomization.yaml") for path in listed(file)}
    files = {path for path in KUBERNETES.rglob("*") if path.is_file() and path.name != "kustomization.yaml"}
    assert files == named


def listed(kustomization):
    made = yaml.safe_load(kustomization.read_text())
    names = [name for name in made.get("resources", ()) if name.endswith(".yaml")]
    for generator in made.get("secretGenerator", ()):
        names += [*generator.get("files", ()), *generator.get("envs", ())]
    return {kustomization.parent / name for name in names}


def pods(applied):
    for made in applied.objects:
        if "template" in made.get("spec", {}):
            yield made, made["spec"]["template"]


def test_what_containers_refer_to_is_there(applied):
    for made, pod in pods(applied):
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        claims = {claim["metadata"]["name"] for claim in made["spec"].get("volumeClaimTemplates", ())}
        for volume in volumes.values():
            if "secret" in volume:
                assert volume["secret"]["secretName"] in applied.secrets
        for container in pod["spec"]["containers"]:
            assert container["image"] in applied.images
            for mount in container.get("volumeMounts", ()):
                assert mount["name"] in volumes.keys() | claims
            for source in container.get("envFrom", ()):
                assert source["secretRef"]["name"] in applied.secrets
            assert not re.search(r"\$\(\w+\)", " ".join(expanded(container, applied)))
            ports = {port["name"] for port in container["ports"]}
            for probe in ("readinessProbe", "livenessProbe"):
                if probe in container:
                    assert container[probe]["httpGet"]["port"] in ports


def test_selectors_find_their_pods(applied):
    labels = [pod["metadata"]["labels"] for _, pod in pods(applied)]

    def found(selector):
        return [one for one in labels if selector.items() <= one.items()]

    for service in applied.of("Service"):
        assert found(service["spec"]["selector"]), service["metadata"]["name"]
    for budget in applied.of("PodDisruptionBudget"):
        assert len(found(budget["spec"]["selector"]["matchLabels"])) == 1
    (islands,) = [one for one in applied.of("Service") if one["metadata"]["name"] == "islands"]
    assert len(found(islands["spec"]["selector"])) == len(ISLANDS)
    for scaler in applied.of("HorizontalPodAutoscaler"):
        assert applied.workload(scaler["spec"]["scaleTargetRef"]["name"])["kind"] == scaler["spec"]["scaleTargetRef"]["kind"]


def test_no_secret_is_more_than_a_place_for_one(applied):
    for values in applied.secrets.values():
        for value in values.values():
            assert value.strip().startswith("change-me")


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Pods:
    """Containers of the manifests as processes of this machine: their paths are folders of the test's, their ports and
    names this host's. Everything else is as it is written there."""

    def __init__(self, directory, applied):
        self.directory, self.applied, self.processes = directory, applied, []
        # Only what stands for the outside is another: where the trainer publishes, and this host for names of services.
        self.relay, self.gateway, self.agent, self.engine = (free_port() for _ in range(4))
        config = dict(applied.config_maps["skerry"])
        config |= {"board": str(directory / "b"), "run": "r", "relay": f"http://127.0.0.1:{self.relay}"}
        self.applied = Applied(applied.objects, {"skerry": config}, applied.secrets, applied.images)
        for folder in ("cache", "tokens", "skerry", "bin"):
            (directory / folder).mkdir()
        for name, value in applied.secrets["tokens"].items():
            (directory / "tokens" / name).write_text(value)
        (directory / "bin" / "skerry").symlink_to(BINARY)

    def start(self, workload, name, **env):
        container = self.applied.container(workload, name)
        words = [self._here(word) for word in expanded(container, self.applied)]
        values = {one["name"]: one["value"] for one in container.get("env", ()) if "value" in one}
        log = open(self.directory / f"{workload}.{name}.log", "w")
        env = environment(**values, **env, PATH=f"{self.directory / 'bin'}:{os.environ['PATH']}")
        self.processes.append(subprocess.Popen(words, stdout=log, stderr=log, env=env, start_new_session=True))
        log.close()
        return self.processes[-1]

    def pre_stop(self, workload, name):
        command = self.applied.container(workload, name)["lifecycle"]["preStop"]["exec"]["command"]
        return subprocess.Popen([self._here(word) for word in command])

    def log(self, workload, name):
        return (self.directory / f"{workload}.{name}.log").read_text()

    def end(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)

    def _here(self, word):
        for port, ours in ((8090, self.relay), (8088, self.gateway), (8089, self.agent), (8000, self.engine), (30000, self.engine)):
            word = re.sub(rf"\b{port}\b", str(ours), word)
        for folder in ("cache", "tokens", "skerry"):
            word = re.sub(rf"(^|[ =])/{folder}\b", rf"\1{self.directory / folder}", word)
        return word.replace("0.0.0.0", "127.0.0.1").replace("dns://islands", "dns://localhost")


@pytest.fixture
def here(applied, tmp_path):
    made = Pods(tmp_path, applied)
    yield made
    made.end()


def stand_in(pods, engine):
    """The command by which the image of an engine starts it, as a stand-in that speaks its routes."""
    script = ROOT / "tests" / "engines" / f"{engine}_contract.py"
    plugin = "--plugin" if engine == "vllm" else ""
    command = {"vllm": "vllm", "sglang": "python3"}[engine]
    (pods.directory / "bin" / command).write_text(
        "#!/bin/sh\n"
        f'echo "$@" > {shlex.quote(str(pods.directory / "started"))}\n'
        f"exec {shlex.quote(sys.executable)} {script} --model {pods.directory}/skerry/checkpoint --port {pods.engine} {plugin}\n"
    )
    (pods.directory / "bin" / command).chmod(0o755)


@pytest.mark.parametrize("engine", ISLANDS)
def test_the_very_commands_make_a_region(engine, here, trainer, models):
    """A relay, a gateway and an island, each by its container's command: a version that the trainer publishes is answered
    by the gateway, and a pod that is ended lets its agent finish first."""
    stand_in(here, engine)
    here.start("relay", "relay")
    here.start("gateway", "gateway")
    island = f"island-{engine}"
    engine_process = here.start(island, engine)
    agent = here.start(island, "agent")

    def asked(path, **how):
        try:
            return request(f"http://127.0.0.1:{here.gateway}{path}", **how)
        except OSError:
            return None

    def answer_of(version):
        body = {"prompt": "hello", "max_tokens": 1, "text": "hello", "sampling_params": {"max_new_tokens": 1}}
        path = "/generate" if engine == "sglang" else "/v1/completions"
        got = asked(path, method="POST", body={**body, "weight_version": {"exact_version": version}})
        answers.append(got)
        return got if got and got[0] == 200 else None

    answers = []

    def everything():
        return str(answers[-1:]) + "\n".join(path.read_text() for path in Path(here.directory).glob("*.log"))

    wait_for(lambda: answer_of(0), lambda: f"the island to serve version 0\n{everything()}")
    trainer.publish(1)
    _, text, headers = wait_for(lambda: answer_of(1), lambda: f"the island to serve version 1\n{everything()}")
    assert headers["Skerry-Version-Start"] == "1"
    assert models.digest(1)[:8] in text
    assert digest_of_checkpoint(here.directory / "skerry" / "checkpoint") == models.digest(1)
    # All of it came through the relay.
    code, text, _ = request(f"http://127.0.0.1:{here.relay}/metrics")
    assert code == 200 and "skerry_relay_sent_bytes_total" in text
    assert request(f"http://127.0.0.1:{here.relay}/runs/r/head")[0] == 401
    # The pod is ended: the engine's hook waits for the agent.
    hook = here.pre_stop(island, engine)
    with pytest.raises(subprocess.TimeoutExpired):
        hook.wait(1.5)
    assert engine_process.poll() is None
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(60) == 0
    assert hook.wait(60) == 0


def test_the_images_have_what_the_program_needs():
    """Each library that the program is linked to comes with a package that the Dockerfile installs, or with one of those."""
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    stage = dockerfile.split("AS skerry")[1].split("FROM")[0]
    installed = set(re.findall(r"\b(lib[\w.+-]+|ca-certificates)\b", stage.split("&& rm")[0]))
    asked = ["apt-cache", "depends", "--recurse", "--important", "--installed", *installed]
    needs = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    installed |= set(re.findall(r"^(\S+)$", needs, re.M))
    lines = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout.splitlines()
    libraries = [Path(line.split("=>")[1].split()[0]).resolve() for line in lines if "=>" in line]
    assert len(libraries) > 8
    for library in libraries:
        # By its name, as some packages name their files by /lib.
        owners = subprocess.run(["dpkg", "-S", f"*/{library.name}"], capture_output=True, text=True, check=True).stdout
        found = {line.split(":")[0] for line in owners.splitlines()}
        assert found & (installed | {"libc6", "libstdc++6", "libgcc-s1"}), library
