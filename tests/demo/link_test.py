"""The proxy that is the long way: real sockets, bytes as they were, and never sooner than it says."""

import contextlib
import hashlib
import random
import socket
import threading
import time

import pytest
from loop.link import Link

PATIENCE = 60


class EchoServer:
    """Sends back what it gets, in capitals, and closes when the client has."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                connection.sendall(data.upper())

    def close(self):
        self._listener.close()


@pytest.fixture
def server():
    running = EchoServer()
    yield running
    running.close()


def connect(link):
    connection = socket.create_connection(link.address, PATIENCE)
    connection.settimeout(PATIENCE)
    return connection


def read_all(connection):
    received = bytearray()
    while data := connection.recv(65536):
        received += data
    return bytes(received)


def through(link, data):
    """What comes back, and the seconds that it took."""
    begin = time.monotonic()
    with connect(link) as connection:
        sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        sender.start()
        back = read_all(connection)
        sender.join(PATIENCE)
    return back, time.monotonic() - begin


@pytest.mark.parametrize("size", [1, 65536, 3_000_001])
def test_bytes_come_through_as_they_were_in_both_directions(links, server, size):
    data = random.Random(size).randbytes(size).lower()
    back, _ = through(Link(links, server.address), data)
    assert hashlib.sha256(back).digest() == hashlib.sha256(data.upper()).digest()


def test_an_answer_never_comes_before_the_handshake_and_the_way_there_and_back(links, server):
    back, seconds = through(Link(links, server.address, delay=0.05), b"hello")
    assert back == b"HELLO"
    assert seconds >= 2 * 0.05 + 2 * 0.05


def test_bytes_never_come_faster_than_the_rate(links, server):
    back, seconds = through(Link(links, server.address, rate=8e6), b"a" * 500_000)
    assert len(back) == 500_000
    assert seconds >= 0.5


def test_connections_do_not_wait_for_one_another(links, server):
    link = Link(links, server.address, delay=0.01)
    with connect(link) as first, connect(link) as second:
        second.sendall(b"second")
        assert second.recv(100) == b"SECOND"
        first.sendall(b"first")
        assert first.recv(100) == b"FIRST"


def test_the_exchanges_are_those_of_the_clients(links, server):
    link = Link(links, server.address)
    with connect(link) as connection:
        for version in (b"3", b"4"):
            request = b"GET /a HTTP/1.1\r\nSkerry-Min-Version: %b\r\n\r\n" % version
            connection.sendall(request)
            assert connection.recv(1000) == request.upper()
    assert [(e.path, e.min_version, e.sent, e.received) for e in link.exchanges] == [
        ("/a", 3, 42, 42),
        ("/a", 4, 42, 42),
    ]


def test_where_the_target_refuses_the_client_is_cut_off(links):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    with pytest.raises(ConnectionResetError), connect(Link(links, address)) as connection:
        connection.recv(1)


def test_the_target_may_change_for_later_connections(links, server):
    link = Link(links, ("127.0.0.1", 1))
    link.target = server.address
    assert through(link, b"there")[0] == b"THERE"


def test_a_client_that_breaks_off_breaks_off_the_server(links):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = connect(Link(links, listener.getsockname()))
        client.sendall(b"x")
        far, _ = listener.accept()
        far.settimeout(PATIENCE)
        assert far.recv(1) == b"x"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        with far, pytest.raises(ConnectionResetError):
            while True:
                far.sendall(b"y")
                assert far.recv(1) != b"", "an orderly end"


def test_a_closed_link_cuts_its_connections_and_takes_no_more(links, server):
    link = Link(links, server.address)
    with connect(link) as connection:
        connection.sendall(b"x")
        assert connection.recv(1) == b"X"
        link.close()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(link)
