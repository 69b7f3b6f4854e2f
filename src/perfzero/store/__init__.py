"""Recordings on disk: written while they are made, read whoever wrote them."""

from perfzero.store.reader import Recording, open_recording
from perfzero.store.schema import Manifest
from perfzero.store.writer import RecordingWriter

__all__ = ["Manifest", "Recording", "RecordingWriter", "open_recording"]
