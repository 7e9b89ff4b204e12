"""One run from its start to its end: its state, its loop, what controls it, and what is known of it afterwards."""
