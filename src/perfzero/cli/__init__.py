"""One thin file per command: it parses, calls the library, prints."""
