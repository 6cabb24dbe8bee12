"""AWS Signature Version 4 as a server checks it, written from the published description alone: the fake S3 must not
share a mistake with the product's signer."""

import hashlib
import hmac
import re
from datetime import datetime, timedelta, timezone
from urllib.parse import parse_qsl, quote, unquote

ALLOWED_SKEW = timedelta(minutes=15)
UNSIGNED = "UNSIGNED-PAYLOAD"
CREDENTIAL = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/,]+)/s3/aws4_request,\s*"
    r"SignedHeaders=([a-z0-9;-]+),\s*Signature=([0-9a-f]{64})"
)


class Refused(Exception):
    """A request that is not let in: the S3 error code and a message."""

    def __init__(self, code, message, status=403):
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def _encode(text, safe="-_.~"):
    return quote(text, safe=safe)


def canonical_request(method, path, query, headers, signed, payload_hash):
    """`path` and `query` as they stood in the request line; `headers` with lower-case names."""
    pairs = sorted(
        (_encode(unquote(name)), _encode(unquote(value)))
        for name, value in (item.partition("=")[::2] for item in query.split("&") if item)
    )
    return "\n".join(
        [
            method,
            _encode(unquote(path), safe="-_.~/"),
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed),
            "",
            ";".join(signed),
            payload_hash,
        ]
    )


def signature(secret, day, region, timestamp, request):
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    scope = f"{day}/{region}/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", timestamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    return hmac.new(key, to_sign.encode(), "sha256").hexdigest()


def check(method, path, query, headers, keys, region, now):
    """Raises Refused unless the request is signed by one of `keys` ({access key: (secret, session token or None)}).
    Returns the access key. The body is compared with x-amz-content-sha256 by check_payload, once it has been read."""
    if "X-Amz-Signature" in dict(parse_qsl(query)):
        raise Refused("AccessDenied", "this server takes no presigned requests")
    given = CREDENTIAL.fullmatch(headers.get("authorization", ""))
    if given is None:
        raise Refused("AccessDenied", "the request is not signed")
    access_key, day, scope_region, signed_text, claimed = given.groups()
    if access_key not in keys:
        raise Refused("InvalidAccessKeyId", f"there is no access key {access_key}")
    secret, token = keys[access_key]
    if scope_region != region:
        message = f"the region '{scope_region}' is wrong; expecting '{region}'"
        raise Refused("AuthorizationHeaderMalformed", message, status=400)
    if token is not None and headers.get("x-amz-security-token") != token:
        raise Refused("InvalidToken", "the session token is not this key's", status=400)
    timestamp = headers.get("x-amz-date", "")
    if not re.fullmatch(r"\d{8}T\d{6}Z", timestamp) or timestamp[:8] != day:
        raise Refused("AccessDenied", f"x-amz-date '{timestamp}' is not of the day {day}")
    sent = datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if abs(now - sent) > ALLOWED_SKEW:
        raise Refused("RequestTimeTooSkewed", "the difference between the request time and the server's is too large")
    signed = signed_text.split(";")
    must = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    if signed != sorted(signed) or not must <= set(signed):
        raise Refused("AccessDenied", f"these headers must be signed: {sorted(must - set(signed))}")
    payload_hash = headers.get("x-amz-content-sha256")
    if payload_hash is None:
        raise Refused("InvalidRequest", "x-amz-content-sha256 is missing", status=400)
    request = canonical_request(method, path, query, headers, signed, payload_hash)
    if not hmac.compare_digest(signature(secret, day, region, timestamp, request), claimed):
        raise Refused("SignatureDoesNotMatch", "the signature does not match; check the secret key")
    return access_key


def check_payload(headers, body):
    claimed = headers["x-amz-content-sha256"]
    if claimed.startswith("STREAMING-"):
        raise Refused(
            "NotImplemented", "aws-chunked bodies are not implemented (turn request checksums off)", status=501
        )
    if claimed != UNSIGNED and claimed != hashlib.sha256(body).hexdigest():
        raise Refused("XAmzContentSHA256Mismatch", "x-amz-content-sha256 is not the body's", status=400)
