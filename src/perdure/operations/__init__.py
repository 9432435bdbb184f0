"""The operator's verbs, shared by the command line, the console and the chat."""
