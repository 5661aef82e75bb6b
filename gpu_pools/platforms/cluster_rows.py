"""Texts of rows that the clusters of several platforms have."""

from __future__ import annotations

from typing import Final

PROTECTED: Final = (
    "Refuse to delete or replace the cluster (a `pulumi destroy` takes everything else first), unless that is "
    "[acknowledged](#gpu-poolsacknowledged)."
)
CHECKED: Final = "Whether the cloud is asked first for what the cluster needs of it; true by default."
CHECKED_DOC: Final = "`false` leaves out the [check of the cloud](#the-check-of-the-cloud) before a deploy."
