from hypothesis import given
from hypothesis import strategies as st

from posemill.decoders import opening
from posemill.decoders.opening import natural_sort, suffix_of, without_suffix
from posemill.files import readable
from posemill.sources.lists import LIST_SUFFIXES


def test_numbers_sort_by_their_value():
    names = ["b", "images10.png", "images9.png", "images009.png", "a2b10", "a2b9", "10", "9"]
    assert natural_sort(names) == [
        "9", "10", "a2b9", "a2b10", "b", "images009.png", "images9.png", "images10.png"
    ]  # fmt: skip


@given(st.lists(st.integers(0, 9999), unique=True))
def test_names_with_leading_zeros_sort_by_number(numbers):
    names = [f"images{number:04d}.png" for number in numbers]
    assert natural_sort(names) == [f"images{number:04d}.png" for number in sorted(numbers)]


def test_suffixes():
    suffixes = [suffix_of(name) for name in ("a.PNG", "a.b.mp4", "png", ".png")]
    assert suffixes == ["png", "mp4", "", ""]
    names = ["a/b.mp4", "a/b.c.mp4", "a.b/c", ".mp4", "a/.mp4"]
    assert [without_suffix(name) for name in names] == ["a/b", "a/b.c", "a.b/c", ".mp4", "a/.mp4"]


def test_foreign_bytes_become_readable():
    assert readable("plain ü") == "plain ü"
    assert readable("caf\udce9") == "caf\\xe9"
    assert readable("half \ud800") == "half \\ud800"


def test_what_a_file_is_stands_in_its_suffix():
    assert " ".join(sorted(opening.PICTURE_SUFFIXES)) == "bmp jpeg jpg png tif tiff webp"
    assert " ".join(sorted(opening.VIDEO_SUFFIXES)) == (
        "3g2 3gp asf avi f4v flv gif m2ts m2v m4v mjpeg mjpg mkv mov mp4 mpeg mpg mts ogv ts vob "
        "webm wmv"
    )
    assert " ".join(sorted(LIST_SUFFIXES)) == "csv jsonl tsv"
