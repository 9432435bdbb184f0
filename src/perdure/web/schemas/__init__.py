"""What the HTTP API answers with, as its OpenAPI description tells."""
