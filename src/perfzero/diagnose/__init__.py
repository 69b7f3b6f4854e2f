"""From what was observed to what holds the GPU back. Pure: no file, no device, no clock, no printing."""
