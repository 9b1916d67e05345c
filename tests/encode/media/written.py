"""What tests of several headers share."""

import io

from PIL import Image

from packcli.encode.media.headers import plain_size


def exif(**tags):
    made = Image.Exif()
    for tag, value in tags.items():
        made[int(tag.removeprefix("t"), 16)] = value
    return made.tobytes()


def plain(data):
    return plain_size(io.BytesIO(data))
