"""The login: who may use the HTTP API and the pages."""
