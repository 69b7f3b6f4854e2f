"""Where samples come from: one module per origin."""
