"""Durable state. The only room with SQL; everything the gateway knows after a crash is in here."""
