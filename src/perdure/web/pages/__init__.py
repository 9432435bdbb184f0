"""The pages for people: the chat and the console."""
