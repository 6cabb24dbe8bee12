"""boto3 clients of the test servers: one attempt, path-style addresses, no checksums that were not asked for."""

import boto3
from botocore.config import Config

_session = boto3.session.Session()


def client_of(
    endpoint, key="skerrykey", secret="skerrysecret", region="us-east-1", token=None, checksums="when_required"
):
    return _session.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        region_name=region,
        config=Config(
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
            request_checksum_calculation=checksums,
            response_checksum_validation="when_required",
            connect_timeout=5,
            read_timeout=60,
        ),
    )
