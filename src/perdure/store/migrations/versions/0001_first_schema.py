"""The first schema. Nothing is older, so there is nothing to do: new databases are made from `schema.sql`."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Already there."""
