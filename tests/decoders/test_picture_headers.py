"""What the first bytes of a picture promise, byte by byte."""

import io
import struct

import pytest
from PIL import Image

from posemill.decoders.picture_headers import ShortHeaderError, read_header, sniff_format


def saved(name, size_wh=(300, 17), **options):
    buffer = io.BytesIO()
    Image.new("RGB", size_wh, (9, 99, 199)).save(buffer, name, **options)
    return buffer.getvalue()


VARIANTS = {
    "JPEG": [{"progressive": True}],
    "TIFF": [{"big_tiff": True}],
    "WebP": [{"lossless": True}, {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}],
}


@pytest.mark.parametrize("size_wh", [(300, 17), (1, 1), (5, 1027)])
@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP"])
def test_format_and_size_are_those_pillow_wrote(name, size_wh):
    for options in ({}, *VARIANTS.get(name, ())):
        data = saved(name, size_wh, **options)
        assert sniff_format(data[:16]) == name
        assert read_header(data, name) == (name, size_wh, True), options


def jpeg(*before_size, end=b"\xff\xd9"):
    """A JPEG of markers only, 30 x 20, with something before the marker of its size."""
    size = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, 20, 30, 1) + b"\x01\x11\0"
    scan = b"\xff\xda" + struct.pack(">H", 8) + b"\x01\x01\0\0\x3f\0"
    return b"\xff\xd8" + b"".join(before_size) + size + scan + b"pixels\xff\0more" + end


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\xff\xff\xff",  # fill bytes: any number before a marker
        b"\xff\xff\xff\xff",
        b"\xff\x01",  # a marker without a length
        b"\xff\xd0",
        b"\xff\xd8",
        b"\xff\xd7\xff\xd1",
        b"\0\0padding",  # skipped, as libjpeg does
        b"\xff\xe1" + struct.pack(">H", 6) + b"\xff\xd9\xff\xd9",  # a thumbnail's end
        b"\xff\xc4" + struct.pack(">HHH", 6, 1, 2),  # tables look like sizes and are none
        b"\xff\xc8" + struct.pack(">HHH", 6, 1, 2),
        b"\xff\xcc" + struct.pack(">HHH", 6, 1, 2),
    ],
)
def test_what_stands_before_the_size_of_a_jpeg_is_passed_over(before):
    assert read_header(jpeg(before), "JPEG") == ("JPEG", (30, 20), True)
    assert read_header(jpeg(before, end=b""), "JPEG") == ("JPEG", (30, 20), False)


@pytest.mark.parametrize(
    ("name", "options"), [("PNG", {}), ("WebP", {}), ("WebP", {"lossless": True})]
)
def test_a_png_and_a_webp_end_with_their_last_chunk(name, options):
    data = saved(name, **options)
    for cut in (1, 2, 3, 4, 7, 8, 9, 11, 12):
        assert not read_header(data[:-cut], name).has_end
    assert read_header(data + b"more", name).has_end


def bmp(header):
    return b"BM" + bytes(12) + header


def test_the_rows_of_a_bmp_may_run_from_top_to_bottom():
    assert read_header(bmp(struct.pack("<Iii", 40, 30, -20)), "BMP").size_wh == (30, 20)
    assert read_header(bmp(struct.pack("<IHH", 12, 30, 40_000)), "BMP").size_wh == (30, 40_000)


def tiff(order, kind, code, tags=(256, 257)):
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    entries = [
        struct.pack(f"{order}HHI{code}", tag, kind, 1, 30 - 10 * index).ljust(12, b"\0")
        for index, tag in enumerate(tags)
    ]
    return head + struct.pack(order + "H", len(tags)) + b"".join(entries)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "code"), [(3, "H"), (4, "I")])
def test_the_size_of_a_tiff_has_either_order_and_either_width(order, kind, code):
    assert read_header(tiff(order, kind, code), "TIFF").size_wh == (30, 20)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("JPEG", jpeg()[:2] + b"nothing", "no more markers"),
        ("JPEG", b"\xff\xd8\xff\xd9\0\0", "ends before any picture data"),
        ("JPEG", b"\xff\xd8\xff\xda\0\x08" + bytes(20), "picture data before the size"),
        ("JPEG", jpeg()[:2] + b"\xff", "index out of range"),
        ("PNG", saved("PNG").replace(b"IHDR", b"IDAT"), "the first chunk is not IHDR"),
        ("WebP", b"RIFF\x20\0\0\0WEBPALPH" + bytes(20), "unknown first chunk b'ALPH'"),
        ("TIFF", tiff("<", 5, "H"), "size stored as type 5"),
        ("TIFF", tiff("<", 3, "H", (256, 258)), "no width and height among its tags"),
        ("TIFF", tiff("<", 3, "H")[:-4], "unpack_from requires"),
    ],
)
def test_a_header_without_a_size_or_a_picture_is_short(name, data, message):
    with pytest.raises(ShortHeaderError, match=message):
        read_header(data, name)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\xff\xd8\xff", "JPEG"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"GIF87a", "GIF"),
        (b"GIF89a", "GIF"),
        (b"BM", "BMP"),
        (b"II*\0", "TIFF"),
        (b"MM\0*", "TIFF"),
        (b"II+\0", "TIFF"),
        (b"MM\0+", "TIFF"),
        (b"RIFF\0\0\0\0WEBP", "WebP"),
    ],
)
def test_a_format_is_known_by_all_of_its_first_bytes(head, name):
    assert sniff_format(head + bytes(16 - len(head))) == name
    for other in (head[:-1], b"", b"RIFF\0\0\0\0WAVE", b"XXXX\0\0\0\0WEBP"):
        assert sniff_format(other) is None


@pytest.mark.parametrize("marker", sorted({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}))
def test_every_kind_of_jpeg_says_its_size(marker):
    data = jpeg().replace(b"\xff\xc0", bytes([0xFF, marker]))
    assert read_header(data, "JPEG") == ("JPEG", (30, 20), True)
