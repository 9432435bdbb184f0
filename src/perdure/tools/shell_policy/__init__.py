"""How a command line is read, and what is known of the programs in it."""
