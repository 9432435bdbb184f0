"""The request and response bodies of the HTTP API, by noun; fields stand in the order of the JSON keys."""
