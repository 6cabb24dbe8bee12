"""Signed versions: made, checked, and refused by name, through the program; and no output ever shows a private key."""

import base64
import hashlib
import json
import shutil
import subprocess

import pytest

import board_files
import small_model
from checkpoint_files import assert_same_files
from program import CONFLICT, CORRUPT, FAILED, OK, skerry


class Key:
    """A key pair of `skerry keygen`."""

    def __init__(self, path):
        made = skerry("keygen", "-o", path, "--json").json
        self.path, self.public = path, path.with_name(path.name + ".pub")
        assert (made["private_key_file"], made["public_key_file"]) == (str(self.path), str(self.public))
        self.text, self.id = made["public_key"], made["key_id"]

    def secrets(self):
        """What must not be seen anywhere: the key in the forms that somebody could print it in."""
        (line,) = [line for line in self.path.read_text().splitlines() if not line.startswith("-----")]
        seed = base64.b64decode(line)[-32:]
        return [line, line[-40:], seed.hex(), seed.hex().upper(), base64.b64encode(seed).decode()]


@pytest.fixture(scope="module")
def alice(tmp_path_factory):
    return Key(tmp_path_factory.mktemp("alice") / "key")


@pytest.fixture(scope="module")
def bob(tmp_path_factory):
    return Key(tmp_path_factory.mktemp("bob") / "key")


@pytest.fixture
def board(ckpt, tmp_path, alice):
    """Run r at version 0, signed by Alice."""
    skerry("init", tmp_path / "b", "--run", "r", "--base", ckpt[0], "--sign-key", alice.path)
    return tmp_path / "b"


def canonical(manifest):
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def replace_head_manifest(board, run, change):
    """What whoever can write to the board can do: another manifest, and a head that names it."""
    head = board_files.head_of(board, run)
    manifest = json.loads((board / head["manifest"]["key"]).read_bytes())
    change(manifest)
    written = canonical(manifest)
    sha256 = hashlib.sha256(written).hexdigest()
    key = f"runs/{run}/versions/{head['version']:09d}/manifest-{sha256[:16]}.json"
    (board / key).write_bytes(written)
    head["manifest"] = {"key": key, "sha256": sha256}
    board_files.head_path(board, run).write_bytes(canonical(head))


def test_a_signed_run_is_published_checked_and_rebuilt(board, ckpt, publish, pull, tmp_path, alice):
    for n in (1, 2, 3):
        publish(ckpt[n], "--sign-key", alice.path, "--trust-key", alice.public)
        pull("follower", "--trust-key", alice.public)
        assert_same_files(tmp_path / "follower", ckpt[n])
    pull("fresh", "--trust-key", alice.text)
    assert_same_files(tmp_path / "fresh", ckpt[3])
    assert [m["signature"]["key"] for m in board_files.walk(board, "r")] == [alice.text] * 4

    log = skerry("log", board, "--run", "r", "--json", "--trust-key", alice.public).json
    assert log["signatures_checked"] is True
    assert [v["signed_by"] for v in log["versions"]] == [alice.text] * 4
    text = skerry("log", "--trust-key", alice.public, board, "--run", "r").out
    assert "signed by key" in text.splitlines()[0] and text.count(alice.id) == 4
    assert skerry("head", board, "--run", "r", "--json", "--trust-key", alice.public).json["signed_by"] == alice.text
    assert alice.text in skerry("head", board, "--run", "r", "--trust-key", alice.public).out
    skerry("status", "--trust-key", alice.public, board)


def test_readers_without_trusted_keys_read_signed_and_unsigned_versions(
    board, ckpt, publish, pull, tmp_path, alice, bob
):
    publish(ckpt[1])
    publish(ckpt[2], "--sign-key", bob.path)
    pull()
    assert_same_files(tmp_path / "island", ckpt[2])
    log = skerry("log", board, "--run", "r", "--json").json
    assert log["signatures_checked"] is False
    assert [v["signed_by"] for v in log["versions"]] == [bob.text, None, alice.text]
    assert "says it is signed" in skerry("log", board, "--run", "r").out.splitlines()[0]
    assert "signed_by" not in skerry("head", board, "--run", "r", "--json").json


def test_openssl_verifies_the_signature_of_each_manifest(board, ckpt, publish, tmp_path, alice):
    publish(ckpt[1], "--sign-key", alice.path)
    for manifest in board_files.walk(board, "r"):
        signature = manifest.pop("signature")
        assert signature.keys() == {"key", "value"} and signature["key"] == alice.text
        (tmp_path / "message").write_bytes(b"skerry manifest 1\n" + canonical(manifest))
        (tmp_path / "signature").write_bytes(bytes.fromhex(signature["value"]))
        verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", alice.public]
        subprocess.run(
            [*verify, "-in", tmp_path / "message", "-sigfile", tmp_path / "signature"], check=True, capture_output=True
        )


def test_an_unsigned_version_in_between_is_refused_by_name_and_the_old_one_stays(
    board, ckpt, publish, pull, tmp_path, alice
):
    publish(ckpt[1], "--sign-key", alice.path)
    pull("island", "--trust-key", alice.public)
    publish(ckpt[2])
    ran = publish(ckpt[3], "--sign-key", alice.path, "--trust-key", alice.public, expect=FAILED)
    assert "run r version 2: not signed" in ran.err and alice.text in ran.err
    publish(ckpt[3], "--sign-key", alice.path)
    for where in ("island", "fresh"):
        ran = pull(where, "--trust-key", alice.public, expect=FAILED)
        assert "run r version 2: not signed" in ran.err
        assert ran.json["error"]["code"] == "mismatch"
    assert_same_files(tmp_path / "island", ckpt[1])
    skerry("verify", tmp_path / "island")
    assert not (tmp_path / "fresh").exists()
    ran = skerry("log", board, "--run", "r", "--trust-key", alice.public, expect=FAILED)
    assert "run r version 2: not signed" in ran.err
    skerry("log", board, "--run", "r", "-n", "1", "--trust-key", alice.public)
    pull("fresh")
    assert_same_files(tmp_path / "fresh", ckpt[3])


def test_a_version_signed_by_another_key_is_refused_until_that_is_trusted_too(
    board, ckpt, publish, pull, tmp_path, alice, bob
):
    publish(ckpt[1], "--sign-key", bob.path)
    wanted = f"run r version 1: signed by {bob.text}, which is not trusted"
    for command in (
        ["pull", board, "--run", "r", "-o", tmp_path / "island"],
        ["log", board, "--run", "r"],
        ["head", board, "--run", "r"],
        ["publish", board, ckpt[2], "--run", "r", "--state", tmp_path / "s", "--sign-key", alice.path],
    ):
        assert wanted in skerry(*command, "--trust-key", alice.public, expect=FAILED).err
    ran = skerry("status", board, "--trust-key", alice.public, expect=FAILED)
    assert wanted in ran.out
    assert not (tmp_path / "island").exists()
    pull("island", "--trust-key", alice.public, "--trust-key", bob.text)
    assert_same_files(tmp_path / "island", ckpt[1])
    ran = pull("other", "--trust-key", bob.public, expect=FAILED)
    assert f"run r version 0: signed by {alice.text}" in ran.err


def test_a_manifest_that_was_changed_on_the_board_is_corrupt_data_and_the_old_version_stays(
    board, ckpt, publish, pull, tmp_path, alice
):
    pull("island", "--trust-key", alice.public)
    publish(ckpt[1], "--sign-key", alice.path)
    replace_head_manifest(board, "r", lambda manifest: manifest["stats"].update(changed=1))
    ran = pull("island", "--trust-key", alice.public, expect=CORRUPT)
    assert f"run r version 1: the signature by {alice.text} does not match the manifest" in ran.err
    assert_same_files(tmp_path / "island", ckpt[0])
    pull("fooled")


@pytest.mark.parametrize(
    "name, change, code, said",
    [
        ("the signature taken off", lambda m: m.pop("signature"), FAILED, "run r version 1: not signed"),
        ("an unknown field added", lambda m: m.update(zebra=[1]), CORRUPT, "does not match"),
        ("the old step", lambda m: m.update(step=400), CORRUPT, "does not match"),
        ("another signature", lambda m: m["signature"].update(value="00" * 64), CORRUPT, "does not match"),
        ("a field in the signature", lambda m: m["signature"].update(by="me"), CORRUPT, "canonical form"),
        ("half a signature", lambda m: m["signature"].update(value="00"), CORRUPT, "manifest.signature"),
    ],
)
def test_a_forged_head_version_is_refused(name, change, code, said, board, ckpt, publish, pull, tmp_path, alice):
    publish(ckpt[1], "--sign-key", alice.path, "--step", 7)
    replace_head_manifest(board, "r", change)
    assert said in pull("island", "--trust-key", alice.public, expect=code).err
    assert not (tmp_path / "island").exists()


def test_a_manifest_of_another_run_with_a_good_signature_is_not_taken_for_this_one(board, ckpt, pull, tmp_path, alice):
    skerry("init", board, "--run", "other", "--base", small_model.write(tmp_path / "x", 20), "--sign-key", alice.path)
    head, strayed = board_files.head_of(board, "r"), board_files.head_of(board, "other")
    head |= {"manifest": strayed["manifest"], "model": strayed["model"]}
    board_files.head_path(board, "r").write_bytes(canonical(head))
    ran = pull("island", "--trust-key", alice.public, expect=FAILED)
    assert "manifest of run other version 0" in ran.err
    assert not (tmp_path / "island").exists()


def test_publishing_the_same_signed_version_again_is_a_no_op(board, ckpt, publish, alice):
    assert publish(ckpt[1], "--version", 1, "--sign-key", alice.path).json["published"] is True
    before = board_files.immutable_objects(board)
    assert publish(ckpt[1], "--version", 1, "--sign-key", alice.path).json["published"] is False
    assert board_files.immutable_objects(board) == before


def test_nobody_publishes_what_the_trusted_keys_would_refuse(board, ckpt, publish, alice, bob):
    before = board_files.immutable_objects(board)
    ran = publish(ckpt[1], "--trust-key", alice.public, expect=FAILED)
    assert "--sign-key" in ran.err
    ran = publish(ckpt[1], "--sign-key", bob.path, "--trust-key", alice.public, expect=FAILED)
    assert bob.text in ran.err
    trusting = {"SKERRY_TRUST_KEYS": str(alice.public)}
    ran = skerry("init", board, "--run", "n", "--base", ckpt[0], "--sign-key", bob.path, env=trusting, expect=FAILED)
    assert bob.text in ran.err
    assert board_files.immutable_objects(board) == before


def test_trusted_keys_of_the_environment_hold_for_every_command(board, ckpt, publish, pull, tmp_path, alice, bob):
    publish(ckpt[1], "--sign-key", bob.path)
    only_alice = {"SKERRY_TRUST_KEYS": str(alice.public)}
    both = {"SKERRY_TRUST_KEYS": f"{alice.public},{bob.text}"}
    assert "version 1: signed by" in pull(env=only_alice, expect=FAILED).err
    assert "version 1: signed by" in skerry("status", board, env=only_alice, expect=FAILED).out
    pull("island", env=both)
    assert_same_files(tmp_path / "island", ckpt[1])
    pull("other", "--trust-key", alice.public, "--trust-key", bob.public, env=only_alice)
    for nothing in ("", ","):
        ran = pull("third", env={"SKERRY_TRUST_KEYS": nothing}, expect=FAILED)
        assert "SKERRY_TRUST_KEYS is set, but names no key" in ran.err


def test_keygen_never_overwrites_and_keeps_the_private_half_for_its_owner(tmp_path):
    key = Key(tmp_path / "key")
    assert key.path.stat().st_mode & 0o777 == 0o600
    kept = key.path.read_bytes(), key.public.read_bytes()
    ran = skerry("keygen", "-o", key.path, expect=CONFLICT)
    assert str(key.path) in ran.err
    key.path.rename(tmp_path / "elsewhere")
    assert "key.pub" in skerry("keygen", "-o", key.path, expect=CONFLICT).err
    assert not key.path.exists()
    assert ((tmp_path / "elsewhere").read_bytes(), key.public.read_bytes()) == kept
    assert "nowhere" in skerry("keygen", "-o", tmp_path / "nowhere" / "key", expect=FAILED).err


def test_keys_are_those_of_openssl(board, ckpt, publish, pull, tmp_path, alice):
    derived = subprocess.run(["openssl", "pkey", "-in", alice.path, "-pubout"], check=True, capture_output=True)
    assert derived.stdout == alice.public.read_bytes()
    foreign, public = tmp_path / "foreign", tmp_path / "foreign.pub"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", foreign], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", foreign, "-pubout", "-out", public], check=True, capture_output=True)
    publish(ckpt[1], "--sign-key", foreign)
    pull("island", "--trust-key", public, "--trust-key", alice.public)
    assert_same_files(tmp_path / "island", ckpt[1])


def test_a_private_key_that_others_may_read_is_used_with_a_warning(board, ckpt, publish, tmp_path, alice):
    shutil.copy(alice.path, tmp_path / "open")
    (tmp_path / "open").chmod(0o644)
    ran = publish(ckpt[1], "--sign-key", tmp_path / "open")
    assert "warning" in ran.err and "0644" in ran.err and "chmod 600" in ran.err
    assert ran.json["published"] is True


def test_no_output_and_no_file_of_the_board_shows_a_private_key(board, ckpt, publish, pull, tmp_path, alice, bob):
    """Right uses, and the mistakes that people make with keys."""
    inside = alice.path.read_text()
    (tmp_path / "cut").write_text(inside[:80])
    (tmp_path / "joined").write_text(alice.public.read_text() + inside)
    reader = ["pull", board, "--run", "r", "-o", tmp_path / "x"]
    ran = [
        skerry("keygen", "-o", tmp_path / "new"),
        skerry("keygen", "-o", alice.path, expect=CONFLICT),
        publish(ckpt[1], "--sign-key", alice.path, "--trust-key", alice.public),
        publish(ckpt[2], "--sign-key", inside, expect=FAILED),
        publish(ckpt[2], "--sign-key", tmp_path / "cut", expect=FAILED),
        publish(ckpt[2], "--sign-key", alice.public, expect=FAILED),
        publish(ckpt[2], "--sign-key", alice.path, "--trust-key", bob.public, expect=FAILED),
        skerry("init", board, "--run", "n", "--base", ckpt[0], "--sign-key", inside, expect=FAILED),
        skerry(*reader, "--trust-key", inside, expect=FAILED),
        skerry(*reader, "--trust-key", alice.path, expect=FAILED),
        skerry(*reader, "--trust-key", tmp_path / "cut", expect=FAILED),
        skerry(*reader, "--trust-key", tmp_path / "joined", expect=FAILED),
        skerry(*reader, env={"SKERRY_TRUST_KEYS": inside}, expect=FAILED),
        skerry(*reader, "--trust-key", bob.public, expect=FAILED),
        skerry(*reader, "--trust-key", alice.public, expect=OK),
        skerry("log", board, "--run", "r"),
        skerry("log", board, "--run", "r", "--json"),
        skerry("head", board, "--run", "r", "--trust-key", alice.public),
        skerry("status", board, "--json"),
    ]
    secrets = [*alice.secrets(), *bob.secrets(), *Key(tmp_path / "another").secrets()]
    new = (tmp_path / "new").read_text().splitlines()[1]
    for done in ran:
        for secret in [*secrets, new]:
            assert secret not in done.out + done.err, done.command
    for place in (board, tmp_path / "x", tmp_path / "s"):
        for path in place.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert not any(secret.encode() in content for secret in secrets), path
                assert bytes.fromhex(alice.secrets()[2]) not in content, path
