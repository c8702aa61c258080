import os
import pickle
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from posemill.decoders import pictures
from posemill.decoders.opening import REASONS
from posemill.decoders.pictures import read_picture
from posemill.errors import DecodeError


@pytest.fixture
def scene():
    """A picture 40 wide and 24 high, all different, smooth enough for JPEG."""
    y, x = np.mgrid[0:24, 0:40]
    return np.stack([x * 6, y * 10, (x + y) * 4], -1).astype(np.uint8)


@pytest.fixture
def write(tmp_path):
    def write_file(name, data):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write_file


def encode(picture, suffix):
    return cv2.imencode(suffix, picture[..., ::-1])[1].tobytes()


def refusal(path, **options):
    with pytest.raises(DecodeError) as caught:
        read_picture(path, **options)
    assert caught.value.reason in REASONS
    assert Path(path).name in str(caught.value)
    return caught.value


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".bmp", ".tiff", ".gif"])
def test_pixels_are_those_of_opencv_in_rgb(suffix, scene, write):
    path = write(f"a{suffix}", encode(scene, suffix))
    frame = read_picture(path)
    assert frame.dtype == np.uint8
    assert frame.flags.c_contiguous
    np.testing.assert_array_equal(frame, cv2.imread(str(path))[..., ::-1])


def test_names_do_not_decide_the_format_and_bytes_behind_a_jpeg_do_no_harm(scene, write):
    path = write("really_a_png.jpg", encode(scene, ".png"))
    np.testing.assert_array_equal(read_picture(path), scene)
    data = encode(scene, ".jpg")
    path = write("phone.jpg", data + b"maker's trailer" * 50)
    np.testing.assert_array_equal(
        read_picture(path), cv2.imdecode(np.frombuffer(data, np.uint8), 1)[..., ::-1]
    )


@pytest.mark.parametrize(
    ("orientation", "undo"),
    [
        (1, lambda a: a),
        (2, lambda a: a[:, ::-1]),
        (3, lambda a: a[::-1, ::-1]),
        (4, lambda a: a[::-1]),
        (6, lambda a: np.rot90(a, 1)),
        (8, lambda a: np.rot90(a, -1)),
    ],
)
def test_exif_rotation_is_applied(orientation, undo, scene, tmp_path):
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(undo(scene))).save(path, exif=exif, quality=95)
    frame = read_picture(path)
    assert frame.shape == scene.shape
    assert np.abs(frame.astype(int) - scene).mean() < 3


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1"])
def test_other_kinds_of_png_come_out_as_rgb(mode, scene, tmp_path):
    picture = Image.fromarray(scene).convert(mode)
    picture.save(tmp_path / "a.png")
    expected = np.asarray(picture.convert("RGB"))
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png"), expected)


def test_16_bit_pictures_keep_their_upper_byte(scene, tmp_path):
    grey = np.repeat(scene[..., :1], 3, 2)
    for name, stored, expected in (("a.png", scene, scene), ("a.tiff", scene, scene),
                                   ("grey.png", scene[..., :1], grey)):  # fmt: skip
        cv2.imwrite(str(tmp_path / name), stored[..., ::-1].astype(np.uint16) * 257)
        np.testing.assert_array_equal(read_picture(tmp_path / name), expected)


def test_cmyk_jpeg_comes_out_as_rgb(scene, tmp_path):
    path = tmp_path / "print.jpg"
    Image.fromarray(scene).convert("CMYK").save(path, quality=95)
    frame = read_picture(path)
    assert np.abs(frame.astype(int) - scene).mean() < 12


@pytest.mark.parametrize("name", [b"\xff\xfe caf\xe9.png", b'it\'s "two" \nlines.png', b" .png"])
def test_any_file_name_works(name, scene, tmp_path):
    path = os.path.join(tmp_path, os.fsdecode(name))  # noqa: PTH118
    with open(path, "wb") as handle:  # noqa: PTH123
        handle.write(encode(scene, ".png"))
    np.testing.assert_array_equal(read_picture(path), scene)


def test_an_error_about_a_foreign_name_can_be_printed_and_sent(tmp_path):
    path = os.path.join(tmp_path, os.fsdecode(b"\xff\n.png"))  # noqa: PTH118
    with pytest.raises(DecodeError, match=r"\\udcff\\n\.png': missing: no such file") as caught:
        read_picture(path)
    str(caught.value).encode()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.reason, str(again)) == ("missing", str(caught.value))


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".tiff", ".gif"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.98])
def test_truncated_pictures_are_noticed(suffix, share, scene, write):
    data = encode(cv2.resize(scene, (400, 240)), suffix)
    path = write(f"cut{suffix}", data[: int(len(data) * share)])
    has_end_mark = suffix in (".jpg", ".png", ".webp")
    assert refusal(path).reason in (["truncated"] if has_end_mark else ["corrupt", "truncated"])


def test_a_jpeg_cut_after_its_thumbnail_is_noticed(scene, tmp_path):
    path = tmp_path / "cut.jpg"
    exif = Image.Exif()
    exif[0x010E] = "thumbnail: \xff\xd8 \xff\xd9".encode("latin-1")
    Image.fromarray(scene).resize((400, 240)).save(path, exif=exif)
    data = path.read_bytes()
    assert b"\xff\xd9" in data[: len(data) // 2]
    path.write_bytes(data[: int(len(data) * 0.7)])
    assert "stops before its end; copy it again" in str(refusal(path))


def test_a_damaged_png_is_corrupt(scene, write):
    data = bytearray(encode(scene, ".png"))
    middle = len(data) // 2
    data[middle : middle + 20] = bytes(20)
    error = refusal(write("flipped.png", data))
    assert error.reason == "corrupt"
    assert "this PNG cannot be decoded; copy it again" in str(error)


def png_claiming(width, height):
    def chunk(kind, body):
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(100_000))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows)
            + chunk(b"IEND", b""))  # fmt: skip


def test_what_is_too_large_is_refused_before_it_is_decoded_or_read(write):
    path = write("bomb.png", png_claiming(20_000, 20_000))
    error = refusal(path)
    assert error.reason == "too large"
    assert "20000 x 20000 is 400 megapixels, allowed are 100" in str(error)
    assert refusal(path, max_pixels=10**9).reason == "corrupt"  # now tried, and found too short
    path = write("long.png", png_claiming(1, 1))
    os.truncate(path, 3 << 20)  # sparse
    assert "too large: a file of 3,145,728 bytes" in str(refusal(path, max_pixels=1000))


def test_what_has_no_pixels_or_is_no_picture_says_so(write):
    for width, height in ((0, 10), (10, 0), (0, 0)):
        error = refusal(write("a.png", png_claiming(width, height)))
        assert f"zero size: {width} x {height} pixels" in str(error)
    expected = "not an image: it starts with b'hello th'; known are JPEG, PNG, GIF, BMP, WebP, TIFF"
    assert expected in str(refusal(write("notes.png", b"hello there")))
    path = write("a.png", encode(np.full((1, 1, 3), 9, np.uint8), ".png"))  # one pixel is one
    assert read_picture(path).tolist() == [[[9, 9, 9]]]


@pytest.mark.parametrize(
    "head", [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"II*\0", b"RIFF....WEBP"]
)
def test_a_bare_beginning_is_truncated(head, write):
    error = refusal(write("head", head))
    assert error.reason == "truncated"
    assert "has no size" in str(error)


def test_a_file_that_cannot_be_opened_or_read_says_so(scene, tmp_path, without_permission):
    path = tmp_path / "secret.png"
    assert refusal(path).reason == "missing"
    path.write_bytes(encode(scene, ".png"))
    with without_permission(path):
        error = refusal(path)
    assert error.reason == "no permission"
    assert "check its mode and owner" in str(error)


def damaged(data, seed):
    """Return the bytes with some changed, mostly near the beginning, or cut off."""
    random = np.random.default_rng(seed)
    changed = bytearray(data)
    for _ in range(random.integers(1, 12)):
        end = len(data) if random.random() < 0.5 else min(len(data), 200)
        changed[random.integers(end)] = random.integers(256)
    return bytes(changed[: random.integers(1, len(data))] if seed % 3 == 0 else changed)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".bmp", ".tiff", ".gif"])
def test_damage_of_any_kind_is_a_decode_error_or_goes_unseen(suffix, scene, write):
    data, reasons = encode(scene, suffix), set()
    for seed in range(60):
        try:
            frame = read_picture(write(f"a{suffix}", damaged(data, seed)))
        except DecodeError as error:
            reasons.add(error.reason)
        else:
            assert frame.shape[2] == 3
    assert reasons
    assert reasons <= set(REASONS)


def test_a_whole_picture_of_floats_is_unsupported_and_not_corrupt(tmp_path):
    path = tmp_path / "depth.tiff"
    assert cv2.imwrite(str(path), np.random.default_rng(0).random((8, 8, 3)).astype(np.float32))
    with pytest.raises(DecodeError, match=r"unsupported: this TIFF is whole, but has 3 x float32"):
        read_picture(path)


@pytest.mark.parametrize(
    ("size_wh", "flags"),
    [
        ((40, 24), cv2.IMREAD_GRAYSCALE),
        ((127, 400), cv2.IMREAD_GRAYSCALE),
        ((128, 400), cv2.IMREAD_REDUCED_GRAYSCALE_2),
        ((300, 256), cv2.IMREAD_REDUCED_GRAYSCALE_4),
        ((512, 600), cv2.IMREAD_REDUCED_GRAYSCALE_8),
    ],
)
def test_a_thumbnail_is_32_by_32_grey_and_decodes_no_more_than_it_needs(
    size_wh, flags, tmp_path, monkeypatch
):
    width, height = size_wh
    row = np.linspace(0, 255, width, dtype=np.uint8)
    ramp = np.broadcast_to(row[None, :, None], (height, width, 3))
    (tmp_path / "a.jpg").write_bytes(encode(np.ascontiguousarray(ramp), ".jpg"))
    asked = []
    real = pictures._decode_as

    def note(path, data, name, how):
        asked.append(how)
        return real(path, data, name, how)

    monkeypatch.setattr(pictures, "_decode_as", note)
    size, small = pictures.read_thumbnail(tmp_path / "a.jpg")
    assert (size, asked, small.shape, small.dtype) == (size_wh, [flags], (32, 32), np.uint8)
    assert np.abs(small[16].astype(int) - np.linspace(4, 251, 32)).max() < 8


@pytest.mark.parametrize(("least_side", "factor"), [(13, 1), (12, 2), (6, 4), (4, 4), (3, 8)])
def test_a_jpeg_is_decoded_smaller_for_who_needs_no_more(least_side, factor, scene, write):
    small = read_picture(write("a.jpg", encode(scene, ".jpg")), least_side=least_side)
    assert small.shape == (24 // factor, 40 // factor, 3)
    means = scene.reshape(24 // factor, factor, 40 // factor, factor, 3).mean((1, 3))
    assert np.abs(small - means).max() < 12
    png = write("a.png", encode(scene, ".png"))
    assert read_picture(png, least_side=least_side).shape == scene.shape


def test_frames_are_averaged_where_they_become_much_smaller(scene):
    assert pictures.resize_frame(scene, (40, 24)) is scene
    means = scene.reshape(6, 4, 10, 4, 3).mean((1, 3))
    small = pictures.resize_frame(scene, (10, 6))
    assert np.abs(small - means).max() <= 0.5
    wide = pictures.resize_frame(scene, (80, 24))
    np.testing.assert_array_equal(wide, cv2.resize(scene, (80, 24)))
