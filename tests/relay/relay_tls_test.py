"""A relay that speaks HTTPS: the same answers, certificates that are renewed while it runs."""

import contextlib
import os
import socket
import ssl
import threading

import pytest

from agent_process import wait_for
from certificates import make_certificate
from checkpoint_files import assert_same_files
from program import FAILED, USAGE, skerry

LONG = 60


@pytest.fixture
def identity(tmp_path):
    return make_certificate(tmp_path, "first")


@pytest.fixture
def secure(relay, identity):
    """secure(board, …): a relay that speaks HTTPS."""

    def started(board, options=(), **how):
        return relay(board, options=("--tls-certificate", identity[0], "--tls-key", identity[1], *options), **how)

    return started


def connect(relay, authority):
    context = ssl.create_default_context(cafile=authority)
    plain = socket.create_connection(("127.0.0.1", relay.port), timeout=LONG)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def issuer(connection):
    return dict(part[0] for part in connection.getpeercert()["issuer"])["commonName"]


def answer(connection, path):
    """The whole answer, with its end: TLS says by itself that there is no more."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    connection.suppress_ragged_eofs = False
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def test_a_pull_over_https_is_the_checkpoint(large, secure, identity, pull, tmp_path):
    board, ckpt = large
    served = secure(board)
    assert served.url.startswith("https://")
    pulled = pull(f"{served.url}?ca={identity[0]}")
    assert (pulled / "model.safetensors").read_bytes() == (ckpt / "model.safetensors").read_bytes()
    refused = skerry("pull", served.url, "--run", "r", "-o", tmp_path / "x", expect=FAILED)
    assert "certificate" in refused.err


def test_news_travel_over_https(trainer, secure, identity, relay, agent):
    """Agents behind a relay behind a relay, none of which polls."""
    address = f"{secure(trainer.board).url}?ca={identity[0]}"
    far = relay(address, cache=trainer.board.parent / "far")
    islands = [agent(board, f"island{number}") for number, board in enumerate((address, far))]
    for island in islands:
        island.wait_for_version(0)
    wait_for(lambda: far.status()["runs"][0]["waiting"] == 1, "the agent behind it to wait")
    for version in (1, 3):
        trainer.publish(version)
        for island in islands:
            island.wait_for_version(version)
            assert_same_files(island.state / "checkpoint", trainer.files(version), f"(version {version})")


def test_answers_end_as_tls_ends(trainer, secure, identity):
    served = secure(trainer.board)
    told = answer(connect(served, identity[0]), "/board.json")
    assert told.startswith(b"HTTP/1.1 200 ") and told.endswith((trainer.board / "board.json").read_bytes())


def test_a_renewed_certificate_is_taken_and_a_wrong_one_is_not(trainer, secure, identity, tmp_path):
    served = secure(trainer.board)
    kept = connect(served, identity[0])
    assert issuer(kept) == "first"
    first = tmp_path / "first.authority"
    first.write_bytes(identity[0].read_bytes())
    identity[1].write_text("no key")
    assert issuer(connect(served, first)) == "first"
    assert "the certificate stays as it was" in served.log
    for old, new in zip(identity, make_certificate(tmp_path, "second"), strict=True):
        os.replace(new, old)
    assert issuer(connect(served, identity[0])) == "second"
    assert answer(kept, "/board.json").startswith(b"HTTP/1.1 200 "), "who was there stays"


def test_who_does_not_speak_tls_is_told_so_or_closed(trainer, secure, identity):
    served = secure(trainer.board)
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONG) as plain:
        plain.sendall(b"GET /board.json HTTP/1.1\r\nHost: x\r\n\r\n")
        told = plain.recv(4096)
        assert told.startswith(b"HTTP/1.1 400 ") and b"https" in told
    silent = [socket.create_connection(("127.0.0.1", served.port), timeout=LONG) for _ in range(30)]
    for number, connection in enumerate(silent):
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(number))
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONG) as rubbish:
        rubbish.sendall(b"\x16" + b"x" * 5000)
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in rubbish.recv(4096)
    assert answer(connect(served, identity[0]), "/board.json").startswith(b"HTTP/1.1 200 ")
    for connection in silent:
        connection.close()


def test_old_versions_of_tls_are_refused(trainer, secure, identity):
    served = secure(trainer.board)
    context = ssl.create_default_context(cafile=identity[0])
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONG) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_reader_that_is_slow_gets_all_of_it(large, secure, identity):
    """More than any buffer has, in small pieces, and others meanwhile."""
    board, _ = large
    served = secure(board)
    key = max((path for path in board.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    slow = connect(served, identity[0])
    slow.sendall(f"GET /{key.relative_to(board)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    began = slow.recv(1000)
    got = []
    threads = [
        threading.Thread(target=lambda: got.append(answer(connect(served, identity[0]), f"/{key.relative_to(board)}")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert [each.endswith(key.read_bytes()) for each in got] == [True] * 4
    parts = [began]
    while part := slow.recv(4096):
        parts.append(part)
    assert b"".join(parts).endswith(key.read_bytes())


def test_files_that_are_not_what_they_should_be_are_named(trainer, identity, tmp_path):
    other = make_certificate(tmp_path, "other")
    common = ("relay", "--board", trainer.board, "--cache", tmp_path / "c", "--listen", "127.0.0.1:0")
    for certificate, key, named in (
        (tmp_path / "none", identity[1], "none"), (identity[0], tmp_path / "none", "none"),
        (identity[1], identity[1], "first.key"), (identity[0], other[1], "other.key"),
    ):  # fmt: skip
        refused = skerry(*common, "--tls-certificate", certificate, "--tls-key", key, expect=FAILED)
        assert named in refused.err
    assert "--tls-key" in skerry(*common, "--tls-certificate", identity[0], expect=USAGE).err
