"""Makes pytest run SQLAlchemy's tests as its own test runner does."""

from sqlalchemy.dialects.postgresql import provision
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403

# None of these tests needs the extensions that SQLAlchemy makes for those of its own repository.
provision._extensions.clear()
