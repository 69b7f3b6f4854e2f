"""From a trace to the parts of the program that the GPU's time belongs to. Pure, as the diagnosis is."""
