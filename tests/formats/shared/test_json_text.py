"""Our JSON files as other tools save them: the same value, other bytes."""

import json

import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format, get_format
from posemill.formats.shared.contract import Recipe
from posemill.formats.shared.json_text import is_line_list
from posemill.testing.formats import assert_same, make_clip, make_clips


def backwards(value):
    """Return the same value with the keys of its objects in the other order."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(one) for one in value] if isinstance(value, list) else value


SAVERS = {
    "plain": json.dumps,
    "indented": lambda value: json.dumps(value, indent=1),
    "compact": lambda value: json.dumps(value, separators=(",", ":")),
    "sorted": lambda value: json.dumps(value, sort_keys=True),
    "meta last": lambda value: json.dumps(backwards(value), indent=2),
    "windows": lambda value: json.dumps(value, indent=4).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("name", ["openpose-file", "coco"])
def test_our_file_is_read_the_same_after_another_tool_saved_it(tmp_path, name, saver):
    form, path = get_format(name), tmp_path / "a.json"
    clips = [*make_clips("coco-133"), make_clip(7, skeleton="coco-133", frames=12)]
    form.write([*clips, make_clip(8, skeleton="coco-133", frames=0)], path, recipe=Recipe())
    before = list(form.read(path))
    path.write_text(SAVERS[saver](json.loads(path.read_text())), newline="")
    assert detect_format(path).name == name
    for one, other in zip(before, form.read(path), strict=True):
        assert_same(one, other)


def test_pictures_in_another_order_go_back_to_their_clips(tmp_path):
    form, path = get_format("coco"), tmp_path / "a.json"
    form.write(make_clips("coco-133"), path, recipe=Recipe())
    before = list(form.read(path))
    content = json.loads(path.read_text())
    content["images"].reverse()
    path.write_text(json.dumps(content))
    for one, other in zip(before, form.read(path), strict=True):
        assert_same(one, other)
    del content["annotations"][3]
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match="picture 4 has no annotation of its own"):
        list(form.read(path))


@pytest.mark.parametrize("name", ["openpose-file", "coco"])
def test_one_value_too_large_to_hold_is_refused_unread(tmp_path, name):
    with (tmp_path / "a.json").open("wb") as handle:
        handle.write(b'{"clips": [')
        handle.truncate((1 << 28) + 1)
    with pytest.raises(FormatError, match=r"a\.json: 268435457 bytes .* 268435456: split it"):
        list(get_format(name).read(tmp_path / "a.json"))


def test_a_clip_too_long_for_a_line_is_refused_when_written_and_when_read(tmp_path, monkeypatch):
    form, path = get_format("openpose-file"), tmp_path / "a.json"
    clips = [make_clip(i, skeleton="openpose-18", frames=frames) for i, frames in ((1, 1), (2, 9))]
    form.write(clips, path, recipe=Recipe())
    monkeypatch.setattr("posemill.formats.shared.json_text.MAX_LINE_BYTES", 2000)
    with pytest.raises(FormatError, match=r"a\.json: clip 'clip_2': \d+ bytes of JSON; expected"):
        form.write(clips, path, recipe=Recipe())
    with pytest.raises(FormatError, match="a record of 'clips' has 2000 bytes or more"):
        list(form.read(path))
    assert detect_format(path).name == "openpose-file"


def test_our_lines_are_known_by_the_line_that_opens_the_list(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n"info": 1,\n"rows": [\n{"a": 1},\n{"a": 2}\n]\n}\n')
    assert is_line_list(path, "rows", line=2)
    assert not is_line_list(path, "rows", line=1)
    assert not is_line_list(path, "rows", line=3)
    assert not is_line_list(path, "others", line=2)
    path.write_text('{\n"info": 1, "rows": [')
    assert not is_line_list(path, "rows", line=9)
    path.write_text('{\n"rows": [\n]\n}\n')
    assert is_line_list(path, "rows", line=1)
