"""Broken checkpoints: {name: (files, what the message must contain)}. Field cases carry their number."""

import json
import struct

from golden_models import shard

Files = dict[str, bytes]
MODEL = "model.safetensors"
INDEX = "model.safetensors.index.json"


def with_header(header: str | bytes, data: bytes = b"", size: int | None = None) -> Files:
    raw = header if isinstance(header, bytes) else header.encode()
    return {MODEL: struct.pack("<Q", len(raw) if size is None else size) + raw + data}


def entry(dtype="F32", shape="[1]", offsets="[0,4]") -> str:
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


def one_tensor(data=b"abcd", **parts) -> Files:
    return with_header(f'{{"w":{entry(**parts)}}}', data)


GOOD = shard({"v": ("F32", [1], b"efgh"), "w": ("F32", [2], b"abcdabcd")})


def duplicates():
    return {
        "B1_a_name_twice_for_two_ranges": (
            with_header(f'{{"w":{entry()},"w":{entry(offsets="[4,8]")}}}', b"abcdefgh"), ["'w'"]),
        "B1_b_name_twice_for_the_same_range": (with_header(f'{{"w":{entry()},"w":{entry()}}}', b"abcd"), ["'w'"]),
        "B1_c_name_twice_with_another_dtype": (
            with_header(f'{{"w":{entry()},"w":{entry(dtype="I32")}}}', b"abcd"), ["'w'"]),
        "B1_metadata_twice": (
            with_header(f'{{"__metadata__":{{}},"__metadata__":{{}},"w":{entry()}}}', b"abcd"), ["__metadata__"]),
        "B1_dtype_twice_in_one_entry": (
            with_header('{"w":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}}', b"abcd"),
            ["'w'", "'dtype'"]),
        "B1_shape_twice_in_one_entry": (
            with_header('{"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}}', b"abcd"),
            ["'w'", "'shape'"]),
        "B1_key_twice_in_metadata": (
            with_header(f'{{"__metadata__":{{"a":"1","a":"2"}},"w":{entry()}}}', b"abcd"), ["'a'"]),
        "B1_name_twice_by_an_escape": (
            with_header(f'{{"w":{entry()},"\\u0077":{entry(offsets="[4,8]")}}}', b"abcdefgh"), ["'w'"]),
    }  # fmt: skip


def sizes_of_files():
    cut_header = GOOD[:40]
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 1234567890\n" % (b"4d7a2146" * 8)
    return {
        "B4_one_byte_too_many": ({MODEL: GOOD + b"\0"}, [str(len(GOOD)), str(len(GOOD) + 1)]),
        "B4_a_mebibyte_of_zeros_too_many": ({MODEL: GOOD + bytes(1 << 20)}, [str(len(GOOD))]),
        "B5_one_byte_too_few": ({MODEL: GOOD[:-1]}, [str(len(GOOD)), str(len(GOOD) - 1)]),
        "B5_cut_inside_the_header": ({MODEL: cut_header}, ["truncated"]),
        "B5_seven_bytes": ({MODEL: GOOD[:7]}, ["7 bytes"]),
        "B5_no_bytes": ({MODEL: b""}, ["0 bytes"]),
        "B5_only_a_length": ({MODEL: GOOD[:8]}, ["truncated"]),
        "B10_git_lfs_pointer": ({MODEL: lfs}, ["LFS"]),
        "B10_xml_error_body": ({MODEL: b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>'}, ["XML"]),
        "B10_html_error_page": ({MODEL: b"<!DOCTYPE html><html><body>404 Not Found</body></html>"}, ["HTML"]),
        "header_of_100000001_bytes": (with_header("{}", b"", 100_000_001), ["100000001"]),
        "header_of_the_largest_allowed_size_in_a_small_file": (with_header("{}", b"", 100_000_000), ["100000000"]),
        "header_of_2_to_the_63_bytes": (with_header("{}", b"", 1 << 63), [str(1 << 63)]),
        "header_of_2_to_the_64_minus_1_bytes": (with_header("{}", b"", (1 << 64) - 1), [str((1 << 64) - 1)]),
        "header_length_that_wraps_to_the_file_size": (with_header("{}", b"", (1 << 64) - 8), []),
        "header_of_no_bytes": (with_header(""), []),
    }


def sizes_of_tensors():
    numbers = {
        "float": "2.0", "exponent": "1e2", "huge_exponent": "1e400", "negative": "-4", "negative_zero": "-0",
        "leading_zero": "04", "hexadecimal": "0x4", "nan": "NaN", "infinity": "Infinity", "text": '"4"', "null": "null",
        "true": "true", "list": "[4]", "plus": "+4", "2_to_the_64": "18446744073709551616",
    }  # fmt: skip
    attacks = {f"B6_offset_is_{name}": (one_tensor(offsets=f"[0,{number}]"), []) for name, number in numbers.items()}
    attacks |= {f"B6_axis_is_{name}": (one_tensor(dtype="U8", shape=f"[{n}]"), []) for name, n in numbers.items()}
    return attacks | {
        "B6_shape_larger_than_the_bytes": (one_tensor(shape="[1000,1000]"), ["'w'", "4000000"]),
        "B6_shape_smaller_than_the_bytes": (one_tensor(shape="[1]", offsets="[0,8]", data=b"abcdabcd"), ["'w'"]),
        "B6_begin_after_end": (one_tensor(offsets="[4,0]"), ["'w'", "begin at 4"]),
        "B6_three_offsets": (one_tensor(offsets="[0,4,8]"), ["'w'"]),
        "B6_one_offset": (one_tensor(offsets="[4]"), ["'w'"]),
        "B6_no_offset": (one_tensor(offsets="[]"), ["'w'"]),
        "B6_scalar_of_eight_bytes": (one_tensor(shape="[]", offsets="[0,8]", data=b"abcdabcd"), ["'w'"]),
        "B8_product_wraps_to_minus_4": (
            one_tensor(dtype="I32", shape=f"[2,{2**64 - 2}]", offsets="[0,16]", data=bytes(16)), ["'w'", "overflow"]),
        "B8_product_wraps_to_minus_2": (
            one_tensor(dtype="I32", shape=f"[2,{2**63 - 1}]", offsets="[0,16]", data=bytes(16)), ["'w'", "overflow"]),
        "B8_product_wraps_to_zero": (
            one_tensor(dtype="U8", shape=f"[{2**32},{2**32}]", offsets="[0,0]", data=b""), ["'w'", "overflow"]),
        "B8_size_in_bits_wraps": (
            one_tensor(dtype="F64", shape=f"[{2**58}]", offsets="[0,0]", data=b""), ["'w'", "overflow"]),
        "packed_elements_that_do_not_fill_a_byte": (one_tensor(dtype="F4", shape="[7]", offsets="[0,4]"), ["'w'"]),
        "a_shape_of_a_thousand_axes": (one_tensor(dtype="U8", shape=json.dumps([1] * 1000), offsets="[0,1]", data=b"a"),
                                       ["'w'"]),
    }  # fmt: skip


def placement():
    def two(first, second, data):
        return with_header(f'{{"v":{entry(offsets=first)},"w":{entry(offsets=second)}}}', data)

    return {
        "overlapping_tensors": (two("[0,4]", "[2,6]", bytes(6)), ["'w'"]),
        "two_tensors_on_the_same_bytes": (two("[0,4]", "[0,4]", bytes(4)), ["'w'"]),
        "a_hole_between_tensors": (two("[0,4]", "[8,12]", bytes(12)), ["'w'"]),
        "a_hole_at_the_start": (one_tensor(offsets="[4,8]", data=bytes(8)), ["'w'"]),
        "an_empty_tensor_inside_another": (
            with_header(f'{{"v":{entry(shape="[0]", offsets="[2,2]")},"w":{entry()}}}', bytes(4)), []),
        "an_empty_tensor_beyond_the_end": (
            with_header(f'{{"v":{entry(shape="[0]", offsets="[9,9]")},"w":{entry()}}}', bytes(4)), []),
        "a_tensor_beyond_two_to_the_63": (
            one_tensor(dtype="U8", shape=f"[{2**60}]", offsets=f"[{2**63},{2**63 + 2**60}]"), ["'w'"]),
    }  # fmt: skip


def texts():
    control = 'w\\n\\u001b[31mskerry: all is well\\r'
    return {
        "A21_unknown_dtype": (one_tensor(dtype="F8_E3M4"), [MODEL, "'w'", "F8_E3M4"]),
        "A21_dtype_in_lower_case": (one_tensor(dtype="f32"), [MODEL, "'w'", "f32"]),
        "A21_empty_dtype": (one_tensor(dtype=""), [MODEL, "'w'"]),
        "a_name_that_is_not_utf8": (with_header(b'{"\xff\xfe":' + entry().encode() + b"}", b"abcd"), []),
        "a_name_with_an_overlong_encoding": (with_header(b'{"\xc0\xaf":' + entry().encode() + b"}", b"abcd"), []),
        "a_name_with_an_encoded_surrogate": (with_header(b'{"\xed\xa0\x80":' + entry().encode() + b"}", b"abcd"), []),
        "a_name_with_half_a_surrogate_pair": (with_header(f'{{"\\ud800":{entry()}}}', b"abcd"), []),
        "a_name_with_a_raw_newline": (with_header(f'{{"a\nb":{entry()}}}', b"abcd"), []),
        "metadata_that_is_not_utf8": (with_header(b'{"__metadata__":{"a":"\xff"}}'), []),
        "a_byte_order_mark": (with_header("\ufeff{}"), []),
        "B3_leading_white_space": (with_header("\t\n{}\r "), ["'{'"]),
        "utf16": (with_header("{}".encode("utf-16-le")), []),
        "a_nul_and_more_after_the_header": (with_header(f'{{"w":{entry()}}}\0{{"hidden":1}}', b"abcd"), []),
        "a_nul_and_bad_utf8_after_the_header": (with_header(b"{} \0\xfd\0\0\0006\0"), []),
        "zeros_as_padding": (with_header(f'{{"w":{entry()}}}\0\0\0', b"abcd"), []),
        "a_nul_before_the_header": (with_header("\0{}"), []),
        "a_second_object_after_the_header": (with_header("{}{}"), []),
        "text_after_the_header": (with_header("{} x"), []),
        "a_comment_in_the_header": (with_header("{/* */}"), []),
        "a_trailing_comma": (with_header(f'{{"w":{entry()},}}', b"abcd"), []),
        "an_unfinished_header": (with_header(f'{{"w":{entry()}', b"abcd"), []),
        "single_quotes": (with_header("{'w':1}"), []),
        "a_message_that_would_write_to_the_terminal": (with_header(f'{{"{control}":{entry(offsets="[0,5]")}}}'), []),
        "a_name_of_a_mebibyte": (with_header('{"%s":%s}' % ("x" * (1 << 20), entry(offsets="[0,5]")), b"abcd"), []),
    }


def shapes_of_json():
    deep = 100_000
    return {
        "nested_100000_deep_in_a_header": (with_header('{"w":' + "[" * deep + "]" * deep + "}"), []),
        "nested_100000_deep_in_metadata": (
            with_header('{"__metadata__":' + '{"a":' * deep + '""' + "}" * deep + "}"), []),
        "nested_100000_deep_and_unclosed": (with_header("{" + '"w":{' * deep), []),
        "a_list_as_header": (with_header("[]"), []),
        "a_number_as_header": (with_header("1"), []),
        "a_list_as_tensor": (with_header('{"w":[]}'), ["'w'"]),
        "null_as_tensor": (with_header('{"w":null}'), ["'w'"]),
        "a_tensor_without_keys": (with_header('{"w":{}}'), ["'w'"]),
        "a_tensor_without_dtype": (with_header('{"w":{"shape":[1],"data_offsets":[0,4]}}', b"abcd"), ["'w'", "dtype"]),
        "a_tensor_without_shape": (
            with_header('{"w":{"dtype":"F32","data_offsets":[0,4]}}', b"abcd"), ["'w'", "shape"]),
        "a_tensor_without_offsets": (with_header('{"w":{"dtype":"F32","shape":[1]}}', b"abcd"), ["'w'", "offsets"]),
        "a_tensor_with_another_key": (
            with_header('{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}', b"abcd"), ["'w'", "'x'"]),
        "a_number_as_dtype": (with_header('{"w":{"dtype":11,"shape":[1],"data_offsets":[0,4]}}', b"abcd"), ["'w'"]),
        "an_object_as_shape": (with_header('{"w":{"dtype":"F32","shape":{},"data_offsets":[0,4]}}', b"abcd"), ["'w'"]),
        "a_number_as_shape": (with_header('{"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}}', b"abcd"), ["'w'"]),
        "a_number_in_metadata": (with_header('{"__metadata__":{"a":1}}'), []),
        "an_object_in_metadata": (with_header('{"__metadata__":{"a":{}}}'), []),
        "null_in_metadata": (with_header('{"__metadata__":{"a":null}}'), []),
        "a_text_as_metadata": (with_header('{"__metadata__":"a"}'), []),
        "null_as_metadata": (with_header('{"__metadata__":null}'), []),
    }  # fmt: skip


ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
SHARDS = {ONE: shard({"v": ("U8", [2], b"ab")}), TWO: shard({"w": ("U8", [2], b"cd")})}


def indexed(weight_map, files=None, text=None) -> Files:
    index = json.dumps({"metadata": {"total_size": 4}, "weight_map": weight_map}) if text is None else text
    raw = index if isinstance(index, bytes) else index.encode()
    return {INDEX: raw} | (SHARDS if files is None else files)


def indexes():
    good = {"v": ONE, "w": TWO}
    attacks = {}
    for name, path in {"parent": "../outside.safetensors", "absolute": "/outside.safetensors",
                       "parent_inside": "sub/../../outside.safetensors", "hidden": ".hidden.safetensors",
                       "hidden_folder": ".git/x.safetensors", "backslash": "..\\outside.safetensors", "empty": "",
                       "folder": "sub/", "dot": "./" + ONE, "double_slash": "sub//x.safetensors", "nul": ONE + "\0",
                       "newline": "a\nb.safetensors", "quote": 'a"b.safetensors',
                       "long": "x" * 2000}.items():  # fmt: skip
        attacks[f"index_path_{name}"] = (indexed({"v": path, "w": TWO}), [])
    stale = {f"w{i}": f"model-{i + 1:05d}-of-00030.safetensors" for i in range(30)}
    fifteen = {f"model-{i + 1:05d}-of-00015.safetensors": shard({f"w{i}": ("U8", [1], b"a")}) for i in range(15)}
    return attacks | {
        "C1_missing_shard": (indexed(good, {ONE: SHARDS[ONE]}), [TWO]),
        "C4_stale_index": (indexed(stale, fifteen), ["stale"]),
        "index_of_a_tensor_that_no_shard_holds": (indexed(good | {"x": TWO}), ["'x'"]),
        "index_without_a_tensor_of_a_shard": (
            indexed(good, SHARDS | {TWO: shard({"w": ("U8", [1], b"c"), "x": ("U8", [1], b"d")})}), ["'x'"]),
        "index_that_places_a_tensor_in_another_shard": (indexed({"v": TWO, "w": ONE}), ["'v'"]),
        "index_over_a_tensor_in_two_shards": (
            indexed(good, SHARDS | {TWO: shard({"v": ("U8", [1], b"c"), "w": ("U8", [1], b"d")})}), ["'v'"]),
        "index_with_a_tensor_twice": (
            indexed(None, text='{"weight_map":{"v":"%s","v":"%s","w":"%s"}}' % (TWO, ONE, TWO)), ["'v'"]),
        "index_with_two_weight_maps": (
            indexed(None, text='{"weight_map":{"x":"a"},"weight_map":{"v":"%s","w":"%s"}}' % (ONE, TWO)), []),
        "index_without_a_weight_map": (indexed(None, text='{"metadata":{}}'), ["weight_map"]),
        "index_with_an_empty_weight_map": (indexed({}), ["weight_map"]),
        "index_with_a_list_as_weight_map": (indexed([ONE, TWO]), ["weight_map"]),
        "index_with_a_number_as_shard": (indexed({"v": 1, "w": TWO}), ["'v'"]),
        "index_with_null_as_shard": (indexed({"v": None, "w": TWO}), ["'v'"]),
        "index_with_a_side_file_as_shard": (
            indexed({"v": "config.json", "w": TWO}, {"config.json": SHARDS[ONE], TWO: SHARDS[TWO]}), ["config.json"]),
        "index_that_is_a_list": (indexed(None, text="[]"), [INDEX]),
        "index_that_is_empty": (indexed(None, text=""), [INDEX]),
        "index_that_is_not_utf8": (indexed(None, text=b'{"weight_map":{"\xff":"a"}}'), [INDEX]),
        "index_that_is_an_lfs_pointer": (indexed(None, text="version https://git-lfs.github.com/spec/v1\n"), [INDEX]),
        "index_nested_100000_deep": (indexed(None, text='{"metadata":' + "[" * 100_000), [INDEX]),
        "index_with_text_behind_a_nul": (
            indexed(None, text=json.dumps({"weight_map": good}).encode() + b'\0{"weight_map":{}}'), [INDEX]),
    }  # fmt: skip


def all_attacks() -> dict[str, tuple[Files, list[str]]]:
    attacks = {}
    for group in (duplicates, sizes_of_files, sizes_of_tensors, placement, texts, shapes_of_json, indexes):
        for name, attack in group().items():
            assert name not in attacks
            attacks[name] = attack
    return attacks


# Near misses that must be accepted, so that refusing everything is no way to pass.
def all_acceptable() -> dict[str, Files]:
    return {
        "good": {MODEL: GOOD},
        "B3_trailing_white_space": with_header("{}\r \t\n"),
        "B11_empty_metadata": with_header(f'{{"__metadata__":{{}},"__metadata__x":{entry()}}}', b"abcd"),
        "an_escaped_nul_in_a_name": with_header(f'{{"a\\u0000b":{entry()}}}', b"abcd"),
        "a_surrogate_pair_in_a_name": with_header(f'{{"\\ud83d\\udc0b":{entry()}}}', b"abcd"),
        "an_empty_name": with_header(f'{{"":{entry()}}}', b"abcd"),
        "two_empty_tensors_at_one_place": with_header(
            f'{{"a":{entry(shape="[0]", offsets="[4,4]")},"b":{entry(shape="[2,0]", offsets="[4,4]")},"w":{entry()}}}',
            b"abcd"),  # fmt: skip
        "an_index_with_strange_metadata": indexed(
            None, text=json.dumps({"metadata": {"total_size": -1.5, "x": [[{}]]}, "weight_map": {"v": ONE, "w": TWO}})
        ),
        "C2_stray_shard_beside_the_index": indexed({"v": ONE, "w": TWO}) | {MODEL: GOOD},
    }
