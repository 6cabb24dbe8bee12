"""What `kubectl apply -k deploy/kubernetes/example` would apply, as far as tests need it: resources of kustomizations, and
what their generators make."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"


@dataclass
class Applied:
    objects: list = field(default_factory=list)
    config_maps: dict = field(default_factory=dict)  # {name: {key: value}}
    secrets: dict = field(default_factory=dict)  # {name: {key: value}}
    images: set = field(default_factory=set)  # names that are replaced

    def of(self, kind):
        return [made for made in self.objects if made["kind"] == kind]

    def workload(self, name):
        (found,) = [made for made in self.objects if made["metadata"]["name"] == name and "template" in made.get("spec", {})]
        return found

    def container(self, workload, name):
        (found,) = [one for one in self.workload(workload)["spec"]["template"]["spec"]["containers"] if one["name"] == name]
        return found


def read(folder=KUBERNETES / "example", into=None):
    applied = into or Applied()
    made = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for resource in made.get("resources", ()):
        path = (folder / resource).resolve()
        if path.is_dir():
            read(path, applied)
        else:
            applied.objects += [one for one in yaml.safe_load_all(path.read_text()) if one]
    for generator in made.get("configMapGenerator", ()):
        applied.config_maps[generator["name"]] = dict(line.split("=", 1) for line in generator["literals"])
    for generator in made.get("secretGenerator", ()):
        values = {file: (folder / file).read_text() for file in generator.get("files", ())}
        for file in generator.get("envs", ()):
            values |= dict(line.split("=", 1) for line in (folder / file).read_text().splitlines())
        applied.secrets[generator["name"]] = values
    applied.images |= {image["name"] for image in made.get("images", ())}
    return applied


def expanded(container, applied):
    """The container's whole command line, with $(NAME) replaced as a kubelet does it."""
    values = {}
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {}).get("configMapKeyRef")
        values[variable["name"]] = applied.config_maps[source["name"]][source["key"]] if source else variable["value"]
    words = [*container["command"], *container["args"]]
    for name, value in values.items():
        words = [word.replace(f"$({name})", value) for word in words]
    return words
