"""The test tools are right themselves: the fake S3 as boto3 sees it, and the poor link."""

import hashlib
import threading
import time

import pytest
from botocore.exceptions import ClientError

import sigv4
from clients import client_of
from fake_s3 import FakeS3
from link import Link


def code_of(call, **arguments):
    """The status of what the server said."""
    try:
        return call(**arguments)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def error_of(call, **arguments):
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return caught.value.response["Error"]["Code"]


def test_the_signature_is_that_of_the_published_example():
    """The GET Object example of the S3 documentation, "Authenticating Requests: Using the Authorization Header"."""
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "range": "bytes=0-9",
        "x-amz-content-sha256": hashlib.sha256(b"").hexdigest(),
        "x-amz-date": "20130524T000000Z",
    }
    request = sigv4.canonical_request("GET", "/test.txt", "", headers, sorted(headers), hashlib.sha256(b"").hexdigest())
    made = sigv4.signature(
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524", "us-east-1", "20130524T000000Z", request
    )
    assert made == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"


def test_objects_come_back_whole_and_in_ranges(fake):
    s3 = client_of(fake.endpoint)
    for key in ("plain", "a b+c=d/ä%2F~:@"):
        put = s3.put_object(Bucket="skerry", Key=key, Body=b"0123456789")
        got = s3.get_object(Bucket="skerry", Key=key)
        assert (got["Body"].read(), got["ETag"]) == (b"0123456789", put["ETag"])
        part = s3.get_object(Bucket="skerry", Key=key, Range="bytes=3-5")
        assert (part["Body"].read(), part["ContentRange"]) == (b"345", "bytes 3-5/10")
    assert code_of(s3.get_object, Bucket="skerry", Key="plain", Range="bytes=10-11") == 416
    assert s3.head_object(Bucket="skerry", Key="plain")["ContentLength"] == 10
    s3.delete_object(Bucket="skerry", Key="plain")
    assert error_of(s3.get_object, Bucket="skerry", Key="plain") == "NoSuchKey"


@pytest.mark.parametrize(
    "mode, create, quoted, bare, stale, missing",
    [
        ("full", 412, 200, 200, 412, 404),
        ("create-only", 412, 200, 200, 200, 200),
        ("none", 200, 200, 200, 200, 200),
        ("two-winners", 412, 200, 200, 412, 404),
        ("bare", 412, 412, 200, 412, 404),
    ],
)
def test_modes_differ_in_the_conditions_that_they_keep_to(mode, create, quoted, bare, stale, missing):
    with FakeS3(mode) as server:
        s3 = client_of(server.endpoint)
        put = dict(Bucket="skerry", Key="k")
        assert code_of(s3.put_object, **put, Body=b"1", IfNoneMatch="*") == 200
        assert code_of(s3.put_object, **put, Body=b"2", IfNoneMatch="*") == create
        first = s3.get_object(**put)["ETag"]
        assert code_of(s3.put_object, **put, Body=b"3", IfMatch=first) == quoted
        now = s3.get_object(**put)["ETag"]
        assert code_of(s3.put_object, **put, Body=b"4", IfMatch=now.strip('"')) == bare
        assert code_of(s3.put_object, **put, Body=b"5", IfMatch=now.strip('"')) == stale
        assert code_of(s3.put_object, Bucket="skerry", Key="none", Body=b"6", IfMatch='"x"') == missing


@pytest.mark.parametrize("mode, most", [("full", 1), ("two-winners", 2), ("none", 8)])
def test_a_race_has_as_many_winners_as_the_mode_says(mode, most):
    with FakeS3(mode) as server:
        winners, barrier = [], threading.Barrier(8)
        clients = [client_of(server.endpoint) for _ in range(8)]

        def write(n):
            clients[n].list_objects_v2(Bucket="skerry")  # connected before the race
            barrier.wait()
            if code_of(clients[n].put_object, Bucket="skerry", Key="k", Body=b"%d" % n, IfNoneMatch="*") == 200:
                winners.append(n)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == most


def test_uploads_in_parts_are_listed_finished_and_given_up(fake):
    s3 = client_of(fake.endpoint)
    begin = lambda: s3.create_multipart_upload(Bucket="skerry", Key="big")["UploadId"]
    upload, other = begin(), begin()
    parts = [
        {
            "PartNumber": n,
            "ETag": s3.upload_part(Bucket="skerry", Key="big", UploadId=upload, PartNumber=n, Body=body)["ETag"],
        }
        for n, body in ((2, b"second"), (1, b"first"))
    ]
    listed = s3.list_multipart_uploads(Bucket="skerry")["Uploads"]
    assert {entry["UploadId"] for entry in listed} == {upload, other}
    done = s3.complete_multipart_upload(
        Bucket="skerry",
        Key="big",
        UploadId=upload,
        MultipartUpload={"Parts": sorted(parts, key=lambda p: p["PartNumber"])},
    )
    assert done["ETag"].endswith('-2"')
    assert fake.body("big") == b"firstsecond"
    s3.abort_multipart_upload(Bucket="skerry", Key="big", UploadId=other)
    assert not s3.list_multipart_uploads(Bucket="skerry").get("Uploads")
    assert error_of(s3.abort_multipart_upload, Bucket="skerry", Key="big", UploadId=upload) == "NoSuchUpload"


def test_listings_have_pages_and_folders(fake):
    for n in range(2300):
        fake.put(f"v/{n:04}/x", b"1")
    s3 = client_of(fake.endpoint)
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket="skerry", Prefix="v/"))
    assert [page["KeyCount"] for page in pages] == [1000, 1000, 300]
    assert [entry["Key"] for page in pages for entry in page["Contents"]] == [f"v/{n:04}/x" for n in range(2300)]
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket="skerry", Prefix="v/", Delimiter="/"))
    assert [entry["Prefix"] for page in pages for entry in page["CommonPrefixes"]] == [
        f"v/{n:04}/" for n in range(2300)
    ]


def test_only_rightly_signed_requests_are_let_in(fake):
    get = dict(Bucket="skerry", Key="k")
    fake.put("k", b"1")
    assert error_of(client_of(fake.endpoint, secret="wrong").get_object, **get) == "SignatureDoesNotMatch"
    assert error_of(client_of(fake.endpoint, key="nobody").get_object, **get) == "InvalidAccessKeyId"
    assert error_of(client_of(fake.endpoint, region="eu-west-1").get_object, **get) == "AuthorizationHeaderMalformed"
    assert error_of(client_of(fake.endpoint).get_object, Bucket="other", Key="k") == "NoSuchBucket"
    fake.keys["temporary"] = ("secret", "token")
    assert error_of(client_of(fake.endpoint, "temporary", "secret").get_object, **get) == "InvalidToken"
    assert code_of(client_of(fake.endpoint, "temporary", "secret", token="token").get_object, **get) == 200
    fake.read_only.add("temporary")
    reader = client_of(fake.endpoint, "temporary", "secret", token="token")
    assert error_of(reader.put_object, **get, Body=b"2") == "AccessDenied"
    assert fake.body("k") == b"1"


def test_checksums_that_were_not_asked_for_are_refused(fake):
    body = b"x" * 100
    plain, eager = client_of(fake.endpoint), client_of(fake.endpoint, checksums="when_supported")
    fake.refuse_checksums = True
    assert code_of(plain.put_object, Bucket="skerry", Key="k", Body=body) == 200
    assert error_of(eager.put_object, Bucket="skerry", Key="k", Body=body) == "NotImplemented"


def test_faults_act_on_the_requests_that_they_name(fake):
    s3 = client_of(fake.endpoint)
    put = dict(Bucket="skerry", Key="a/head", Body=b"1")
    fake.fault("PUT", "*/head", skip=1, times=1, status=409)
    assert [code_of(s3.put_object, **put) for _ in range(3)] == [200, 409, 200]
    fake.fault("PUT", "*/head", times=1, status=503, headers={"Retry-After": "1"})
    assert code_of(s3.put_object, **put) == 503
    fake.fault("PUT", "*/head", times=1, ignore_condition=True)
    assert code_of(s3.put_object, **put, IfNoneMatch="*") == 200
    assert code_of(s3.put_object, **put, IfNoneMatch="*") == 412

    fake.fault("PUT", "lost", times=1, after_write="reset")
    fake.fault("PUT", "never", times=1, before_write="reset")
    for key in ("lost", "never"):
        with pytest.raises(Exception, match="closed|reset|aborted"):
            s3.put_object(Bucket="skerry", Key=key, Body=b"1")
    assert (fake.body("lost"), fake.body("never")) == (b"1", None)

    fake.put("long", b"x" * 1000)
    fake.fault("GET", "long", times=1, truncate=300)
    with pytest.raises(Exception):
        s3.get_object(Bucket="skerry", Key="long")["Body"].read()
    assert len(s3.get_object(Bucket="skerry", Key="long")["Body"].read()) == 1000
    sizes = [request.sent for request in fake.requests("GET", "long")]
    assert sizes == [300, 1000]


def test_a_link_delays_and_limits_and_counts(fake):
    fake.put("k", b"x" * 50_000)
    with Link(fake.port, delay=0.05, bandwidth=250_000) as link:
        s3 = client_of(link.endpoint)
        begun = time.monotonic()
        assert s3.get_object(Bucket="skerry", Key="k")["Body"].read() == b"x" * 50_000
        assert time.monotonic() - begun >= 2 * 0.05 + 50_000 / 250_000
        assert link.down > 50_000 and 0 < link.up < 5000 and link.connections == 1


def test_a_link_resets_some_connections(fake):
    fake.put("k", b"x" * 1000)
    with Link(fake.port, reset=0.2, seed=3) as link:
        s3, said = client_of(link.endpoint), []
        for _ in range(30):
            try:
                s3.get_object(Bucket="skerry", Key="k")["Body"].read()
                said.append("ok")
            except Exception:
                said.append("lost")
        assert 0 < said.count("lost") < 30
        assert link.resets >= said.count("lost")
