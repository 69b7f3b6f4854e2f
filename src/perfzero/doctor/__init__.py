"""What this machine lets perfzero read, and what would unlock more."""
