"""Small copies of a report's figures, which are drawn at 200 dpi, at 80 dpi.

python docs/gallery/small.py FIGURE.png … FOLDER
"""

import sys
from pathlib import Path

from PIL import Image

SCALE = 80 / 200


def main(*paths: str) -> None:
    """Write a copy of each figure into the folder, which is the last argument."""
    *figures, folder = map(Path, paths)
    folder.mkdir(parents=True, exist_ok=True)
    for path in figures:
        with Image.open(path) as figure:
            size = tuple(round(SCALE * length) for length in figure.size)
            figure.resize(size, Image.Resampling.LANCZOS).save(folder / path.name, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
