"""Videos that something is wrong with, and what comes of reading them."""

import av
import numpy as np

from posemill.decoders import open_video
from posemill.errors import DecodeError


def paint_noise(number, size_wh):
    """Return a frame of moving noise, which no codec can make small: a cut is within a picture."""
    noise = np.random.default_rng(0).integers(0, 255, (size_wh[1], size_wh[0], 3), np.uint8)
    return np.roll(noise, 3 * number, axis=1)


def copy_packets(source, target, start):
    """Write a video of the packets of another one, from one on, as they are."""
    with av.open(str(source)) as container, av.open(str(target), "w") as copy:
        stream = container.streams.video[0]
        copied = copy.add_stream_from_template(stream)
        for number, packet in enumerate(container.demux(stream)):
            if packet.size and number >= start:
                packet.stream = copied
                copy.mux(packet)
    return target


def read_frames(path, decoder="pyav"):
    """Return the frames that can be read, and why there are no more, if something is wrong."""
    frames = []
    try:
        with open_video(path, decoder=decoder) as video:
            frames.extend(video)
    except DecodeError as error:
        return frames, error
    return frames, None
