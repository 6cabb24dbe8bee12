"""The cheapest way to a version, by trying all, from what the manifests of a board say."""

from dataclasses import dataclass

LINK_BYTES_PER_SECOND = 125e6
APPLY_BYTES_PER_SECOND = 2e9


@dataclass
class Way:
    cost: float  # seconds
    fetched: int  # bytes
    patches: int
    anchor: dict | None  # where it begins; None: at what the reader has

    def then(self, fetched, checkpoint, patches=1):
        cost = fetched / LINK_BYTES_PER_SECOND + checkpoint / APPLY_BYTES_PER_SECOND
        return Way(self.cost + cost, self.fetched + fetched, self.patches + patches, self.anchor)


def edge_bytes(edge):
    return sum(part["size"] for part in edge["objects"])


def cheapest(manifests, have=None):
    """To the newest of `manifests`; `have`: the version that a reader has."""
    target = manifests[0]
    ways = {}
    for anchor in target["anchors"]:
        start = Way(0, 0, 0, anchor).then(anchor["bytes"], target["stats"]["checkpoint_bytes"], patches=0)
        ways[anchor["version"]] = start
    if have is not None:
        ways[have] = Way(0, 0, 0, None)
    for manifest in reversed(manifests):
        version, checkpoint = manifest["version"], manifest["stats"]["checkpoint_bytes"]
        arriving = [
            ways[edge["from"]].then(edge_bytes(edge), checkpoint) for edge in manifest["edges"] if edge["from"] in ways
        ]
        arriving += [ways[version]] if version in ways else []
        if arriving:
            ways[version] = min(arriving, key=lambda way: way.cost)
    return ways[target["version"]]
