"""From samples to numbers that can be trusted: cleaning, the steady stretch, means, periods. Pure numpy."""
