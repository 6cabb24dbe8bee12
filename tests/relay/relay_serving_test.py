"""What a relay answers: the board's own bytes, over every kind of upstream, and nothing else."""

import json
import os
import socket

import pytest

import board_files
from checkpoint_files import assert_same_files, sha256_of
from fake_s3 import FakeS3
from program import FAILED, USAGE, skerry
from relayed import get, keys_of
from s3_board import S3Board


def test_every_object_of_a_board_comes_through_as_it_is(trainer, relay):
    trainer.publish(12)
    served = relay(trainer.board)
    keys = keys_of(trainer.board)
    assert len(keys) > 40
    for key in keys:
        status, body, headers = get(served, key)
        assert (status, body) == (200, (trainer.board / key).read_bytes()), key
        assert headers["Accept-Ranges"] == "bytes"
    again = get(served, keys[-1])[2]["ETag"]
    assert again == f'"{sha256_of(trainer.board / keys[-1])}"', "what was found to be right is known by its SHA-256"
    status, body, _ = get(served, "runs/r/head")
    assert (status, body) == (200, board_files.head_path(trainer.board, "r").read_bytes())


@pytest.mark.parametrize("kind", ["directory", "web server", "another relay"])
def test_a_pull_through_a_relay_is_the_checkpoint(kind, trainer, origin, relay, pull):
    trainer.publish(9)
    upstream = {"directory": trainer.board, "web server": origin}.get(kind)
    served = relay(upstream or relay(trainer.board, cache=trainer.board.parent / "first"))
    assert_same_files(pull(served), trainer.files(9), "(from nothing)")
    trainer.publish(11)
    served.wait_for_head(11)
    assert_same_files(pull(served), trainer.files(11), "(from version 9)")


def test_a_pull_through_a_relay_over_s3_is_the_checkpoint(models, relay, tmp_path):
    paths = [models.path(version) for version in range(3)]
    with FakeS3() as fake:
        board = S3Board(fake, paths, tmp_path)
        board.init()
        served = relay(board.url, env=board.env)
        skerry("pull", served.url, "--run", "r", "-o", tmp_path / "pulled")
        assert_same_files(tmp_path / "pulled", models.files(0), "(version 0)")


def test_ranges_tags_and_conditions_are_kept_to(large, relay):
    board, _ = large
    key = max(keys_of(board), key=lambda name: (board / name).stat().st_size)
    body = (board / key).read_bytes()
    served = relay(board)
    assert get(served, key)[1] == body
    tag = f'"{sha256_of(board / key)}"'
    size = len(body)
    for text, first, end in (
        ("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=-7", size - 7, size), (f"bytes={size - 3}-", size - 3, size),
        (f"bytes=4194300-{size + 99}", 4194300, size),
    ):  # fmt: skip
        status, part, headers = get(served, key, {"Range": text})
        assert (status, part) == (206, body[first:end]), text
        assert headers["Content-Range"] == f"bytes {first}-{end - 1}/{size}"
    status, _, headers = get(served, key, {"Range": f"bytes={size}-"})
    assert (status, headers["Content-Range"]) == (416, f"bytes */{size}")
    for ignored in ("bytes=9-5", "lines=1-2", "bytes=0-1,5-6", "bytes=x-y"):
        assert get(served, key, {"Range": ignored})[0] == 200, ignored
    assert get(served, key, {"If-None-Match": tag})[:2] == (304, b"")
    assert get(served, key, {"If-None-Match": f'"other", W/{tag}'})[0] == 304
    assert get(served, key, {"If-None-Match": '"other"'})[0] == 200
    assert get(served, key, {"If-Match": '"other"'})[0] == 412
    assert get(served, key, {"If-Match": tag, "Range": "bytes=1-2"})[:2] == (206, body[1:3])
    assert get(served, key, {"If-Range": '"other"', "Range": "bytes=1-2"})[0] == 200
    assert get(served, key, {"If-Range": tag, "Range": "bytes=1-2"})[0] == 206
    status, nothing, headers = get(served, key, method="HEAD")
    assert (status, nothing, headers["Content-Length"]) == (200, b"", str(size))


def test_the_head_has_a_tag_and_is_not_to_be_kept(trainer, relay):
    served = relay(trainer.board)
    status, body, headers = get(served, "runs/r/head")
    assert status == 200 and headers["Cache-Control"] == "no-cache"
    assert get(served, "runs/r/head", {"If-None-Match": headers["ETag"]})[:2] == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "", "board.jsonx", "runs", "runs/r", "runs/r/", "runs/r/versions/000000000/", "runs/r/leases/x.json", "runs/r/gc.json",
        "probe/x/y", "runs/r/versions/000000000/parts/a-000-of-001.json", "runs/../board.json", "../../etc/passwd",
        "runs/r/versions/000000000/.hidden-0123456789abcdef.bin", "etc/passwd", "runs/r/versions/1/manifest.json", "%00",
        "runs/r/layouts/short.json.zst", "runs/r%2fversions", "runs//r/head", "runs/.r/head", "objects", "lock",
    ],
)  # fmt: skip
def test_what_is_no_object_of_a_board_is_not_there(path, trainer, origin, relay):
    served = relay(origin)
    status, body, _ = get(served, path)
    assert status in (400, 404), body
    if status == 404:
        assert json.loads(body)["error"]["type"] == "not_found"
    assert not [key for key in origin.asked if key not in ("board.json", "runs/r/head")], "the upstream was asked for it"


def test_a_run_or_version_that_is_not_there_is_not_found_and_may_come_later(trainer, relay):
    served = relay(trainer.board)
    assert get(served, "runs/none/head")[0] == 404
    assert get(served, "runs/r/versions/000000099/manifest.json")[0] == 404
    assert get(served, f"runs/r/versions/000000001/delta-000-{'0' * 16}.skerry")[0] == 404
    late = skerry("pull", served.url, "--run", "none", "-o", served.cache.parent / "x", expect=FAILED)
    assert "none" in late.err


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS"])
def test_writes_are_refused(method, trainer, relay):
    served = relay(trainer.board)
    before = board_files.immutable_objects(trainer.board)
    for path in ("/runs/r/head", "/board.json", "/runs/r/versions/000000001/manifest.json"):
        code, text, headers = served.ask(method, path, {"a": 1} if method != "OPTIONS" else None)
        assert code == 405 and headers["Allow"] == "GET, HEAD", text
    assert board_files.immutable_objects(trainer.board) == before


def test_publishing_to_a_relay_says_that_it_can_only_be_read(trainer, relay):
    served = relay(trainer.board)
    refused = skerry("publish", served.url, trainer.path(1), "--run", "r", expect=FAILED)
    assert "only be read" in refused.err


def test_K1_without_the_token_nothing_of_the_board_is_shown(trainer, relay, tmp_path, pull):
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    served = relay(trainer.board, options=("--token-file", token))
    assert served.url.startswith("http://127.0.0.1:")
    for given in (None, "wrong", "s3cret-token2"):
        code, text, headers = served.ask("GET", "/runs/r/head", token=given)
        assert code == 401 and headers["WWW-Authenticate"] == "Bearer"
        assert served.ask("POST", "/v1/skerry/wake", token=given)[0] == 401
    assert served.ask("GET", "/runs/r/head", token="s3cret-token")[0] == 200
    assert served.ask("POST", "/v1/skerry/wake", token="s3cret-token")[0] == 202
    refused = skerry("pull", served.url, "--run", "r", "-o", tmp_path / "x", expect=FAILED)
    assert "401" in refused.err and "token_file" in refused.err
    assert_same_files(pull(f"{served.url}?token_file={token}"), trainer.files(0), "(with the token)")
    behind = relay(f"{served.url}?token_file={token}", cache=tmp_path / "behind")
    assert get(behind, "board.json")[0] == 200


def test_K2_no_secret_is_in_status_metrics_or_log(trainer, origin, relay, tmp_path):
    (tmp_path / "mine").write_text("mine-is-secret")
    (tmp_path / "theirs").write_text("theirs-is-secret")
    served = relay(f"{origin.url}?token_file={tmp_path / 'theirs'}", options=("--token-file", tmp_path / "mine"))
    assert served.ask("GET", "/runs/r/head", token="mine-is-secret")[0] == 200
    assert "Bearer theirs-is-secret" in origin.authorizations
    served.ask("GET", "/runs/r/head", token="wrong-and-secret")
    origin.broken = 500
    served.ask("GET", "/runs/r/versions/000000003/manifest.json", token="mine-is-secret")
    shown = json.dumps(served.status()) + served.ask("GET", "/metrics")[1] + served.log
    assert "is-secret" not in shown and "and-secret" not in shown


def test_it_says_when_it_is_ready(trainer, origin, relay):
    origin.broken = 503
    served = relay(origin)
    assert served.ask("GET", "/healthz")[:2] == (200, "ok\n")
    code, text, _ = served.ask("GET", "/readyz")
    assert code == 503 and json.loads(text)["because"]
    origin.broken = 0
    served.wait(lambda status: status["ready"])
    assert served.ask("GET", "/readyz")[0] == 200
    assert served.ask("GET", "/v1/skerry/nothing")[0] == 404
    assert served.ask("POST", "/v1/skerry/status")[0] == 405


def test_a_cache_has_one_relay(trainer, relay):
    first = relay(trainer.board)
    assert first.url
    second = relay(trainer.board)
    assert second.process.wait(60) == 3
    assert "in use by another relay" in second.log


def test_the_cache_of_another_board_is_refused(trainer, relay, models, tmp_path):
    first = relay(trainer.board)
    assert get(first, "board.json")[0] == 200
    first.terminate()
    skerry("init", tmp_path / "other", "--run", "r", "--base", models.path(0))
    second = relay(tmp_path / "other")
    second.wait(lambda status: status["upstreams"][0]["wrong"] > 0)
    assert "needs another --cache" in second.log


def test_wrong_options_are_named(tmp_path):
    for options, named in (
        ((), "--board"), (("--board", tmp_path), "--cache"), (("--board", tmp_path, "--cache", "c", "--cache-size", "big"), "--cache-size"),
        (("--board", tmp_path, "--cache", "c", "--parallel", "0"), "--parallel"),
    ):  # fmt: skip
        assert named in skerry("relay", *options, expect=USAGE).err
    missing = skerry("relay", "--board", tmp_path / "none", "--cache", tmp_path / "c", expect=FAILED)
    assert "none" in missing.err


def test_a_client_that_sends_rubbish_or_takes_nothing_harms_nobody(large, relay):
    board, _ = large
    key = max(keys_of(board), key=lambda name: (board / name).stat().st_size)
    served = relay(board)
    idle = []
    for text in (b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % key.encode(), b"\x00\x01\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        for _ in range(20):
            idle.append(socket.create_connection(("127.0.0.1", served.port)))
            idle[-1].sendall(text)
    assert get(served, key)[1] == (board / key).read_bytes()
    for connection in idle:
        connection.close()


def test_it_stops_within_its_grace_and_answers_who_waits(trainer, relay):
    served = relay(trainer.board, options=("--grace", 5))
    tag = get(served, "runs/r/head")[2]["ETag"]
    waiting = socket.create_connection(("127.0.0.1", served.port))
    waiting.sendall(b"GET /runs/r/head HTTP/1.1\r\nHost: x\r\nIf-None-Match: %s\r\nSkerry-Wait: 60\r\n\r\n" % tag.encode())
    served.wait(lambda status: status["runs"][0]["waiting"] == 1)
    assert served.terminate() == 0
    assert waiting.recv(4096).startswith(b"HTTP/1.1 304 ")
    assert "stopped" in served.log
    assert os.path.exists(served.cache / "objects" / "board.json")
