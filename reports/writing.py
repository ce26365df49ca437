"""Writing several files so that the old ones stay whole when it fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from theory.errors import InvalidInput


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write each file beside its place first, and move them there, in order, once all are written.

    Raises:
        InvalidInput: the disk is full or the place cannot be written; nothing half written is left behind.
    """
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    path = next(iter(files), Path())
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            beside[path].write_bytes(content)
        for path, part in beside.items():
            os.replace(part, path)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {path}: {error.strerror}; free some space or name another place with --output"
        ) from None
    finally:
        for part in beside.values():
            with contextlib.suppress(OSError):
                part.unlink()
