"""Whether a group's states may be images of its processes, as far as that can be said before it runs (D-63).

An image is the default, where nothing speaks against it: it asks nothing of the program. It can be restored
by the same interpreter and libraries, under the same kernel, and holds no files. So it is left where a
replica may be on another host, or may come back after an update of this one; there it can be asked for.
"""

from __future__ import annotations

from llft.config import Checkpoints, ThreadMode
from llft.runtime.native import image
from llft.runtime.settings import Settings

SIDE_BY_SIDE = "threads run side by side (--threads ordered)"
CONFIGURED = "so it is configured"
WITHOUT_IMAGES = "without_images"
"""Of a specification: why its states are no images; "": they may be."""


def against_images(settings: Settings, group: str, *, durable: bool) -> str:
    """What speaks against images of this group; "": nothing. `durable`: states are to outlast the run."""
    return _unwanted(settings, group, durable=durable) or image.impossible()


def _unwanted(settings: Settings, group: str, *, durable: bool) -> str:
    found = settings.group(group)
    if found.threads is not ThreadMode.TOKEN:
        return SIDE_BY_SIDE
    if found.checkpoints in (Checkpoints.HOOKS, Checkpoints.NONE):
        return CONFIGURED
    if found.data:
        return "an image does not carry the files of a data directory"
    if found.checkpoints is Checkpoints.IMAGE:
        return ""
    if not settings.is_local:
        return "replicas may be on several hosts: if these are alike, --checkpoints image takes images"
    if durable:
        return (
            "an image on disk is worth nothing after an update of the kernel or of a library: "
            "if there is none before --restore, --checkpoints image takes images"
        )
    return ""
