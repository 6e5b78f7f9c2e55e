"""`atoll serve` with clients that read the system catalogs: `\\d` of psql, and SQLAlchemy."""

import datetime
import decimal
import enum

import psycopg
import pytest
import sqlalchemy as sa
from server_process import Serving
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

SCHEMA = """
CREATE SCHEMA sales;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name varchar(40) NOT NULL UNIQUE,
    felt mood DEFAULT 'happy');
CREATE TABLE sales.orders (
    id serial PRIMARY KEY,
    customer bigint REFERENCES customers (id) ON DELETE CASCADE,
    total numeric(12,2) CHECK (total >= 0));
CREATE INDEX by_customer ON sales.orders (customer, total);
CREATE VIEW open_orders AS SELECT id, total FROM sales.orders;
COMMENT ON TABLE customers IS 'who buys';
"""


@pytest.fixture
def server(tmp_path):
    with Serving(tmp_path) as serving:
        with psycopg.connect(serving.dsn, autocommit=True) as connection:
            connection.execute(SCHEMA)
        yield serving


@pytest.fixture
def engine(server):
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(server.dsn))
    yield engine
    engine.dispose()


def test_psql_describes_what_there_is(server):
    shown = server.run("psql", "-X", "-c", "\\d customers")
    assert "character varying(40)" in shown and "generated always as identity" in shown
    assert '"customers_name_key" UNIQUE CONSTRAINT, btree (name)' in shown
    wanted = 'TABLE "sales.orders" CONSTRAINT "orders_customer_fkey" FOREIGN KEY (customer)'
    assert wanted in shown
    shown = server.run("psql", "-X", "-c", "\\d+ sales.orders")
    assert "orders_pkey" in shown and "CHECK (total >= 0)" in shown
    assert "FOREIGN KEY (customer) REFERENCES customers(id) ON DELETE CASCADE" in shown
    listed = server.run("psql", "-X", "-At", "-c", "\\dt *.*")
    assert "public|customers|table|" in listed and "sales|orders|table|" in listed
    comment = "SELECT obj_description('customers'::regclass)"
    assert server.run("psql", "-X", "-At", "-c", comment) == "who buys\n"
    for command in ["d open_orders", "di sales.*", "dn+", "dT+", "dD", "du", "l", "dp"]:
        server.run("psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", f"\\{command}")


def test_sqlalchemy_reflects_tables(engine):
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["information_schema", "public", "sales"]
    assert inspector.get_table_names() == ["customers"]
    assert inspector.get_view_names() == ["open_orders"]
    columns = {column["name"]: column for column in inspector.get_columns("customers")}
    assert columns["id"]["identity"]["always"] and str(columns["name"]["type"]) == "VARCHAR(40)"
    assert columns["felt"]["type"].enums == ["sad", "happy"]
    assert inspector.get_pk_constraint("customers")["constrained_columns"] == ["id"]
    [unique] = inspector.get_unique_constraints("customers")
    assert unique["column_names"] == ["name"]
    [key] = inspector.get_foreign_keys("orders", schema="sales")
    assert (key["referred_table"], key["options"]) == ("customers", {"ondelete": "CASCADE"})
    [index] = inspector.get_indexes("orders", schema="sales")
    assert index["column_names"] == ["customer", "total"]
    assert inspector.get_table_comment("customers")["text"] == "who buys"
    metadata = sa.MetaData()
    metadata.reflect(engine, schema="sales")
    assert sorted(metadata.tables) == ["customers", "sales.orders"]


class Base(DeclarativeBase):
    pass


class Feeling(enum.Enum):
    SAD = 1
    HAPPY = 2


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(30), unique=True)
    feeling: Mapped[Feeling]
    made: Mapped[datetime.datetime] = mapped_column(server_default=sa.func.now())
    posts: Mapped[list["Post"]] = relationship(back_populates="user", cascade="all, delete-orphan")


class Post(Base):
    __tablename__ = "posts"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(sa.ForeignKey("users.id"))
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2))
    user: Mapped[User] = relationship(back_populates="posts")


def test_objects_of_sqlalchemy_are_kept_and_found(engine):
    for _ in range(2):  # The second time it looks for what is there.
        Base.metadata.create_all(engine)
    with Session(engine) as session:
        prices = [decimal.Decimal(price) for price in ("0", "1.50", "3")]
        posts = lambda: [Post(price=price) for price in prices]  # noqa: E731
        users = [User(name=f"u{at}", feeling=Feeling.HAPPY, posts=posts()) for at in range(40)]
        session.add_all(users)
        session.commit()
        # Identities were given in the order of the objects.
        assert [user.id for user in users] == sorted(user.id for user in users)
        assert session.scalar(sa.select(sa.func.sum(Post.price))) == 180
        user = session.scalars(sa.select(User).where(User.name == "u7")).one()
        assert user.feeling is Feeling.HAPPY and len(user.posts) == 3
        user.feeling = Feeling.SAD
        session.delete(user.posts[0])
        with session.begin_nested():
            session.add(Post(user_id=user.id, price=7))
        session.commit()
        assert sorted(post.price for post in user.posts)[-1] == 7
        session.add(User(name="u7", feeling=Feeling.SAD))
        with pytest.raises(sa.exc.IntegrityError):
            session.commit()
        session.rollback()
    Base.metadata.drop_all(engine)
    assert not sa.inspect(engine).has_table("users")
