"""The moving parts: small loops in one task group, each moving rows of the store from one state to the next."""
