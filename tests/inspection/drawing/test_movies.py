import av
import numpy as np
import pytest

from posemill.inspection.drawing.movies import write_movie


def pictures(count, width=161, height=121):
    """Yield pictures that get brighter by four each."""
    for number in range(count):
        yield np.full((height, width, 3), 40 + 4 * number, np.uint8)


def read(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoded = list(container.decode(video=0))
        last_seconds = float(decoded[-1].time)
        frames = [frame.to_ndarray(format="rgb24") for frame in decoded]
        return (stream.codec_context.name, last_seconds), frames


def test_mp4_is_h264_of_even_size_with_every_frame(tmp_path):
    assert write_movie(tmp_path / "a.mp4", pictures(20), kind="mp4", fps=12.5) == 20
    (codec, last_seconds), frames = read(tmp_path / "a.mp4")
    assert codec == "h264"
    assert last_seconds == pytest.approx(19 / 12.5)
    assert [frame.shape for frame in frames] == [(120, 160, 3)] * 20
    means = [frame.mean() for frame in frames]
    assert means == pytest.approx([40 + 4 * number for number in range(20)], abs=3)
    content = (tmp_path / "a.mp4").read_bytes()
    assert 0 < content.index(b"moov") < content.index(b"mdat"), "its index comes before its frames"


def test_gif_leaves_frames_out_and_stays_small(tmp_path):
    path = tmp_path / "a.gif"
    assert write_movie(path, pictures(20, 960, 600), kind="gif", fps=30) == 10
    (codec, last_seconds), frames = read(path)
    assert codec == "gif"
    assert last_seconds == pytest.approx(9 / 15, abs=0.02)
    assert [frame.shape for frame in frames] == [(300, 480, 3)] * 10
    assert [frame.mean() for frame in frames] == pytest.approx(
        [40 + 8 * number for number in range(10)], abs=4
    )


def test_frames_of_other_sizes_are_fitted_into_the_first(tmp_path):
    mixed = [*pictures(1, 100, 100), *pictures(1, 50, 200), *pictures(1, 300, 30)]
    assert write_movie(tmp_path / "a.mp4", mixed, kind="mp4") == 3
    assert {frame.shape for frame in read(tmp_path / "a.mp4")[1]} == {(100, 100, 3)}


def test_a_failing_or_empty_source_leaves_no_file(tmp_path):
    def failing():
        yield from pictures(3)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        write_movie(tmp_path / "a.mp4", failing(), kind="mp4")
    with pytest.raises(ValueError, match="frames: expected at least one, got none"):
        write_movie(tmp_path / "a.mp4", pictures(0), kind="mp4")
    assert list(tmp_path.iterdir()) == []
