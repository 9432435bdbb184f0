"""The verbs of an operator, once, for whoever offers them: the command line, the console and the chat."""
