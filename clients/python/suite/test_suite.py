"""The tests that SQLAlchemy has for every dialect."""

from sqlalchemy.testing.suite import *  # noqa: F403
