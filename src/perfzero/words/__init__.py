"""What perfzero says to people: a catalogue of sentences per language, and sentences that know their key."""
