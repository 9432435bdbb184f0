"""The keeper: a program of its own that owns one shell command and outlives the gateway.

`program`, `process` and `directory` are the program; `client` is the gateway's side of it.
"""
