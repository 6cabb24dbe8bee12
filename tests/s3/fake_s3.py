"""An S3 server in memory whose faults can be scripted, and which keeps a log of what it was asked. One bucket;
path-style addresses; signatures are checked (sigv4.py).

Modes, by what it makes of the conditions of PUT:
    full          If-None-Match: * and If-Match are kept to
    create-only   If-Match is ignored
    none          both are ignored
    two-winners   kept to, but the first two of racing writers both win
    bare          kept to, but If-Match must come without quotes (as radosgw 16 wants it)
"""

import re
import threading
import time
from datetime import datetime, timedelta, timezone
from xml.sax.saxutils import escape

import sigv4
from fake_http import XML, Handler, Reply, Server, error
from faults import Fault, Faults
from s3_objects import Objects, Stored, md5

MODES = ("full", "create-only", "none", "two-winners", "bare")
PAGE = 1000  # of a listing
RACE_WINDOW = 0.03  # seconds that a conditional PUT waits in two-winners, so that racing ones meet


class FakeS3:
    """Use as a context manager, or start() and stop(). Everything may be changed while it runs."""

    def __init__(self, mode="full", bucket="skerry", region="us-east-1"):
        assert mode in MODES, mode
        self.mode, self.bucket, self.region = mode, bucket, region
        self.keys = {"skerrykey": ("skerrysecret", None)}  # access key: (secret, session token)
        self.read_only = set()  # access keys that may not write
        self.objects = Objects()
        self.log = []  # every Request that was answered or cut off
        self.clock_ahead = timedelta()  # of the right time
        self.etag_form = '"{}"'  # of the ETag header: '"{}"', '{}' or 'W/"{}"'
        self.etag_of = md5  # of a body; a test may make it anything
        self.refuse_checksums = False  # aws-chunked bodies and checksum trailers are 501 in any case
        self._faults = Faults()
        self._log_lock = threading.Lock()
        self._written = {}  # when the first of racing writes took effect, by key and condition; for two-winners
        self._server = None

    # Running it.

    def start(self):
        self._server = Server(("127.0.0.1", 0), type("FakeHandler", (Handler,), {"server_of": self}))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def port(self):
        return self._server.server_address[1]

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    # For tests.

    def fault(self, method, key, **what):
        return self._faults.add(Fault(method, key, **what))

    def clear_faults(self):
        self._faults.clear()

    def requests(self, method=None, pattern=None):
        with self._log_lock:
            return [
                request
                for request in self.log
                if method in (None, request.method) and (pattern is None or re.search(pattern, request.key))
            ]

    def forget_requests(self):
        with self._log_lock:
            self.log.clear()

    def body(self, key):
        stored = self.objects.get(key)
        return None if stored is None else stored.body

    def put(self, key, body):
        """Behind everybody's back."""
        self.objects.put(key, Stored(body, self.etag_of(body)))

    # What a request does.

    def record(self, request):
        with self._log_lock:
            self.log.append(request)

    def fault_of(self, request):
        return self._faults.of(request)

    def admit(self, request, method, path, query):
        now = datetime.now(timezone.utc) + self.clock_ahead
        who = sigv4.check(method, path, query, request.headers, self.keys, self.region, now)
        sigv4.check_payload(request.headers, request.body)
        if "aws-chunked" in request.headers.get("content-encoding", "") or "x-amz-trailer" in request.headers:
            raise sigv4.Refused(
                "NotImplemented", "A header you provided implies functionality that is not implemented", 501
            )
        if self.refuse_checksums and any(name.startswith("x-amz-checksum-") for name in request.headers):
            raise sigv4.Refused("NotImplemented", "x-amz-checksum-* is not implemented", 501)
        if who in self.read_only and method not in ("GET", "HEAD"):
            raise sigv4.Refused("AccessDenied", "Access Denied")

    def answer(self, request, fault):
        if request.key == "" and request.method == "GET":
            return self._list_uploads(request) if request.has("uploads") else self._list(request)
        if request.method in ("GET", "HEAD"):
            return self._get(request)
        if request.method == "PUT":
            return self._put_part(request) if request.has("partNumber") else self._put(request, fault)
        if request.method == "POST" and request.has("uploads"):
            upload = self.objects.begin(request.key)
            return self._xml(
                "InitiateMultipartUploadResult", f"<Key>{escape(request.key)}</Key><UploadId>{upload}</UploadId>"
            )
        if request.method == "POST" and request.has("uploadId"):
            return self._complete(request, fault)
        if request.method == "DELETE" and request.has("uploadId"):
            ended = self.objects.end(request.query["uploadId"][0])
            return Reply(204) if ended else error(404, "NoSuchUpload")
        if request.method == "DELETE":
            self.objects.delete(request.key)
            return Reply(204)
        return error(405, "MethodNotAllowed")

    def _etag(self, stored):
        return self.etag_form.format(stored.etag)

    def _xml(self, name, inner):
        body = f'{XML}<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</{name}>'
        return Reply(200, body.encode(), {"Content-Type": "application/xml"})

    def _get(self, request):
        stored = self.objects.get(request.key)
        if stored is None:
            return error(404, "NoSuchKey")
        etag = self._etag(stored)
        headers = {"ETag": etag, "Accept-Ranges": "bytes"}
        if_match = request.headers.get("if-match")
        if if_match is not None and not self._matches(if_match, stored):
            return error(412, "PreconditionFailed")
        if request.headers.get("if-none-match") in (etag, "*"):
            return Reply(304, headers=headers)
        ranged = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        if ranged is None:
            return Reply(200, stored.body, headers)
        size, begin = len(stored.body), int(ranged[1])
        if begin >= size:
            return error(416, "InvalidRange")
        end = min(int(ranged[2] or size - 1), size - 1)
        return Reply(206, stored.body[begin : end + 1], headers | {"Content-Range": f"bytes {begin}-{end}/{size}"})

    def _matches(self, given, stored):
        if self.mode == "bare":
            return given == stored.etag
        return given in (self._etag(stored), stored.etag, "*")

    def _condition(self, request, fault):
        """What the PUT asks of the object that is there, as Objects.put takes it."""
        creates = request.headers.get("if-none-match") == "*" and self.mode != "none"
        swaps = request.headers.get("if-match") if self.mode not in ("none", "create-only") else None

        def check(current):
            if fault.ignore_condition:
                return None
            if creates and current is not None and not self._second_winner(request):
                return error(412, "PreconditionFailed")
            if swaps is not None and current is None:
                return error(404, "NoSuchKey")
            if swaps is not None and not self._matches(swaps, current) and not self._second_winner(request):
                return error(412, "PreconditionFailed")
            if request.conditional:
                self._written.setdefault((request.key, swaps), time.monotonic())
            return None

        return check

    def _second_winner(self, request):
        """In two-winners: whether this request was under way already when another one of the same condition was
        granted, and is the first such."""
        written = (request.key, request.headers.get("if-match"))
        if self.mode != "two-winners" or request.arrived > self._written.get(written, float("-inf")):
            return False
        self._written[written] = float("-inf")
        return True

    def _put(self, request, fault):
        stored = Stored(request.body, self.etag_of(request.body))
        if self.mode == "two-winners" and request.conditional:
            time.sleep(RACE_WINDOW)
        refused = self.objects.put(request.key, stored, self._condition(request, fault))
        return refused or Reply(200, headers={"ETag": self._etag(stored)})

    def _put_part(self, request):
        etag = self.objects.part(request.query["uploadId"][0], int(request.query["partNumber"][0]), request.body)
        return error(404, "NoSuchUpload") if etag is None else Reply(200, headers={"ETag": f'"{etag}"'})

    def _complete(self, request, fault):
        upload = request.query["uploadId"][0]
        numbers = [int(number) for number in re.findall(rb"<PartNumber>\s*(\d+)\s*</PartNumber>", request.body)]
        stored = self.objects.complete(upload, numbers)
        if stored is None:
            return error(404, "NoSuchUpload")
        refused = self.objects.put(request.key, stored, self._condition(request, fault))
        if refused is not None:
            return refused
        self.objects.end(upload)
        etag = escape(self._etag(stored), {'"': "&quot;"})
        return self._xml("CompleteMultipartUploadResult", f"<Key>{escape(request.key)}</Key><ETag>{etag}</ETag>")

    def _list(self, request):
        query = {name: values[0] for name, values in request.query.items()}
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token", query.get("start-after", ""))
        limit = min(int(query.get("max-keys", PAGE)), PAGE)
        entries = []  # (name, whether it is a common prefix)
        for key in self.objects.keys(prefix):
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            entry = (key[: cut + len(delimiter)], True) if cut >= 0 else (key, False)
            if not entries or entries[-1] != entry:
                entries.append(entry)
        entries = [entry for entry in entries if entry[0] > after]
        page, more = entries[:limit], len(entries) > limit
        inner = [
            f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>"
        ]
        if more:
            inner.append(f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>")
        for name, common in page:
            if common:
                inner.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            else:
                size = len(self.objects.get(name).body) if self.objects.get(name) else 0
                inner.append(f"<Contents><Key>{escape(name)}</Key><Size>{size}</Size></Contents>")
        return self._xml("ListBucketResult", "".join(inner))

    def _list_uploads(self, request):
        uploads = self.objects.uploads(request.query.get("prefix", [""])[0])
        inner = "".join(
            f"<Upload><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            f"<Initiated>{begun:%Y-%m-%dT%H:%M:%S.000Z}</Initiated></Upload>"
            for key, upload, begun in uploads
        )
        return self._xml("ListMultipartUploadsResult", f"<IsTruncated>false</IsTruncated>{inner}")
