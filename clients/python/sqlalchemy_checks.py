"""SQLAlchemy over psycopg, psycopg2, asyncpg and pg8000: a shop in Core and ORM, and reflection."""

import asyncio
import contextlib
import datetime
import decimal
import enum
import threading
import uuid

import sqlalchemy as sa
from checks import check, equal, main, refused, url
from sqlalchemy import exc, orm
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

UTC = datetime.UTC
DRIVERS = ("psycopg", "psycopg2", "pg8000")


class Base(orm.DeclarativeBase):
    metadata = sa.MetaData(naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s", "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s", "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    })  # fmt: skip


class State(enum.Enum):
    NEW = "new"
    PAID = "paid"
    SENT = "sent"


class Customer(Base):
    __tablename__ = "customers"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50), unique=True)
    city: orm.Mapped[str | None] = orm.mapped_column(index=True)
    since: orm.Mapped[datetime.datetime] = orm.mapped_column(
        sa.DateTime(timezone=True), server_default=sa.func.now()
    )
    profile: orm.Mapped[dict] = orm.mapped_column(pg.JSONB, default=dict)
    tags: orm.Mapped[list[str]] = orm.mapped_column(pg.ARRAY(sa.Text), default=list)
    orders: orm.Mapped[list["Order"]] = orm.relationship(
        back_populates="customer", cascade="all, delete-orphan", order_by="Order.placed"
    )


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = (sa.CheckConstraint("total >= 0", name="total"),)
    id: orm.Mapped[uuid.UUID] = orm.mapped_column(primary_key=True, default=uuid.uuid4)
    customer_id: orm.Mapped[int] = orm.mapped_column(
        sa.ForeignKey("customers.id", ondelete="CASCADE")
    )
    placed: orm.Mapped[datetime.date]
    total: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(12, 2))
    state: orm.Mapped[State] = orm.mapped_column(
        sa.Enum(State, name="order_state"), default=State.NEW
    )
    version: orm.Mapped[int] = orm.mapped_column()
    customer: orm.Mapped[Customer] = orm.relationship(back_populates="orders")
    __mapper_args__ = {"version_id_col": version}


def state(error):
    return (
        getattr(error.orig, "sqlstate", None)
        or getattr(error.orig, "pgcode", None)
        or (error.orig.args[0]["C"])
    )


@contextlib.contextmanager
def engine(driver="psycopg", **more):
    made = sa.create_engine(url(f"postgresql+{driver}"), **more)
    try:
        yield made
    finally:
        made.dispose()


@contextlib.contextmanager
def shop(driver="psycopg", count=10):
    """An engine and the shop's tables, with some customers."""
    with engine(driver) as own:
        Base.metadata.drop_all(own)
        Base.metadata.create_all(own)
        with orm.Session(own) as session, session.begin():
            session.add_all(
                Customer(
                    name=f"n{at}", city=["Rome", "Oslo", None][at % 3], tags=["a", f"t{at}"],
                    profile={"age": 20 + at, "address": {"zip": str(at)}},
                    orders=[Order(placed=datetime.date(2024, 1 + n, 1 + at % 28),
                                  total=decimal.Decimal(at * n) / 4) for n in range(at % 4)],
                )
                for at in range(count)
            )  # fmt: skip
        yield own


def each(name):
    """Marks a check that is run over each driver."""

    def mark(function):
        for driver in DRIVERS:
            check(f"{name} over {driver}")(lambda driver=driver: function(driver))
        return function

    return mark


@each("create_all twice and drop_all")
def _(driver):
    with engine(driver) as own:
        Base.metadata.create_all(own)
        Base.metadata.create_all(own)
        assert {"customers", "orders"} <= set(sa.inspect(own).get_table_names())
        Base.metadata.drop_all(own)
        assert "orders" not in sa.inspect(own).get_table_names()
        equal(sa.inspect(own).has_table("customers"), False)


@each("insertmanyvalues gives keys in order")
def _(driver):
    with shop(driver, 0) as own, own.begin() as connection:
        rows = [{"name": f"m{at}"} for at in range(2500)]
        found = connection.execute(
            sa.insert(Customer).returning(Customer.id, Customer.name, sort_by_parameter_order=True),
            [row | {"profile": {}, "tags": []} for row in rows],
        ).all()
        equal([row.name for row in found], [row["name"] for row in rows])
        equal([row.id for row in found], sorted(row.id for row in found))


@each("objects are stored, changed and deleted")
def _(driver):
    with shop(driver) as own, orm.Session(own) as session:
        equal(session.scalar(sa.select(sa.func.count()).select_from(Order)), 13)
        third = session.scalars(sa.select(Customer).where(Customer.name == "n3")).one()
        equal(
            (third.profile, third.tags, len(third.orders)),
            ({"age": 23, "address": {"zip": "3"}}, ["a", "t3"], 3),
        )
        equal(third.orders[1].total, decimal.Decimal("0.75"))
        third.orders[0].state, third.orders[0].total = State.PAID, decimal.Decimal("9.99")
        third.profile = {"age": 99}
        session.commit()
        equal(
            session.scalar(sa.select(Order.total).where(Order.state == State.PAID)),
            decimal.Decimal("9.99"),
        )
        session.delete(third)
        session.commit()
        equal(session.scalar(sa.select(sa.func.count()).select_from(Order)), 10)


@each("loading of relations")
def _(driver):
    with shop(driver) as own, orm.Session(own) as session:
        for load in (orm.selectinload, orm.joinedload, orm.subqueryload):
            session.expunge_all()
            found = (
                session.scalars(
                    sa.select(Customer).options(load(Customer.orders)).order_by(Customer.id)
                )
                .unique()
                .all()
            )
            equal([len(one.orders) for one in found], [at % 4 for at in range(10)])


@each("filters, groups and windows")
def _(driver):
    with shop(driver) as own, own.connect() as connection:
        total = sa.func.sum(Order.total).label("total")
        found = connection.execute(
            sa.select(Customer.city, sa.func.count().label("n"), total)
            .join(Order).where(Order.placed >= datetime.date(2024, 1, 2))
            .group_by(Customer.city).having(sa.func.count() > 1)
            .order_by(Customer.city.desc().nulls_last())
        ).all()  # fmt: skip
        equal([(row.city, row.n) for row in found], [("Rome", 6), ("Oslo", 4), (None, 3)])
        rank = sa.func.row_number().over(partition_by=Customer.city, order_by=Customer.id.desc())
        inner = sa.select(Customer.name, rank.label("place")).subquery()
        found = connection.scalars(
            sa.select(inner.c.name).where(inner.c.place == 1).order_by(inner.c.name)
        )
        equal(found.all(), ["n7", "n8", "n9"])
        found = connection.scalars(
            sa.select(Customer.name).where(
                Customer.id.in_(sa.select(Order.customer_id).where(Order.total > 4)),
                Customer.name.not_in(["n7"]),
            )
        )
        equal(found.all(), [])
        found = connection.scalars(
            sa.select(Customer.name).where(~Customer.orders.any(), Customer.name.ilike("N%"))
            .order_by(Customer.name).limit(2).offset(1)
        )  # fmt: skip
        equal(found.all(), ["n4", "n8"])


@each("json, arrays and dates in conditions")
def _(driver):
    with shop(driver) as own, own.connect() as connection:

        def names(*where):
            select = sa.select(Customer.name).where(*where).order_by(Customer.name)
            return connection.scalars(select).all()

        equal(names(Customer.profile["age"].as_integer() > 27), ["n8", "n9"])
        equal(names(Customer.profile["address"]["zip"].astext == "4"), ["n4"])
        equal(names(Customer.profile.contains({"age": 21})), ["n1"])
        equal(names(Customer.profile.has_key("nothing")), [])
        equal(names(Customer.tags.contains(["t5"])), ["n5"])
        equal(names(Customer.tags.any("t6")), ["n6"])
        equal(names(Customer.tags[2] == "t7"), ["n7"])
        equal(len(names(sa.extract("year", Customer.since) >= 2024)), 10)
        month = sa.func.date_trunc(sa.literal_column("'month'"), Order.placed)
        equal(len(connection.execute(sa.select(month, sa.func.count()).group_by(month)).all()), 3)


@each("ON CONFLICT")
def _(driver):
    with shop(driver) as own, own.begin() as connection:
        insert = pg.insert(Customer).values(name="n1", city="Bonn", profile={}, tags=[])
        connection.execute(insert.on_conflict_do_nothing(index_elements=["name"]))
        found = connection.execute(
            insert.on_conflict_do_update(
                constraint="uq_customers_name",
                set_={"city": insert.excluded.city},
                where=Customer.city.is_distinct_from(insert.excluded.city),
            ).returning(Customer.name, Customer.city)
        ).all()
        equal(found, [("n1", "Bonn")])


@each("changes with RETURNING, FROM and CTE")
def _(driver):
    with shop(driver) as own, own.begin() as connection:
        found = connection.execute(
            sa.update(Order).where(Order.customer_id == Customer.id, Customer.name == "n3")
            .values(total=Order.total + 1).returning(Order.total)
        ).scalars()  # fmt: skip
        equal(sorted(found), [decimal.Decimal(text) for text in ("1.00", "1.75", "2.50")])
        rich = sa.select(Order.id).where(Order.total >= 2).cte("rich")
        gone = connection.execute(sa.delete(Order).where(Order.id.in_(sa.select(rich.c.id))))
        equal(gone.rowcount, 2)


@each("errors and savepoints")
def _(driver):
    with shop(driver) as own, orm.Session(own) as session:
        with refused(exc.DBAPIError, "23505", of=state), session.begin_nested():
            session.add(Customer(name="n1"))
            session.flush()
        with refused(exc.DBAPIError, "23514", of=state), session.begin_nested():
            session.add(Order(customer_id=1, placed=datetime.date.today(), total=-1))
            session.flush()
        with refused(exc.DBAPIError, "23503", of=state), session.begin_nested():
            session.add(Order(customer_id=-1, placed=datetime.date.today(), total=1))
            session.flush()
        session.add(Customer(name="kept"))
        session.commit()
        equal(session.scalar(sa.select(sa.func.count()).where(Customer.name == "kept")), 1)
        with refused(exc.ProgrammingError, "42P01", of=state):
            session.execute(sa.text("SELECT * FROM missing"))


@each("stale versions of objects")
def _(driver):
    with shop(driver) as own, orm.Session(own) as one, orm.Session(own) as two:
        mine = one.scalars(sa.select(Order).limit(1)).one()
        theirs = two.get(Order, mine.id)
        mine.total += 1
        one.commit()
        theirs.total += 1
        with refused(orm.exc.StaleDataError):
            two.commit()


@each("levels of isolation and AUTOCOMMIT")
def _(driver):
    with engine(driver) as own:
        for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"):
            with own.connect().execution_options(isolation_level=level) as connection:
                if level != "AUTOCOMMIT":
                    seen = connection.scalar(sa.text("SHOW transaction_isolation"))
                    equal((seen, connection.get_isolation_level()), (level.lower(), level))
        with own.connect() as connection:
            equal(connection.default_isolation_level, "READ COMMITTED")


@each("results that are streamed")
def _(driver):
    with engine(driver) as own, own.connect() as connection:
        result = connection.execution_options(yield_per=500).execute(
            sa.text("SELECT n FROM generate_series(1, 20000) AS g(n)")
        )
        equal(sum(result.scalars()), 200010000)


@check("reflection of a shop")
def _():
    with shop() as own:
        inspector = sa.inspect(own)
        equal(inspector.get_pk_constraint("orders")["constrained_columns"], ["id"])
        equal(inspector.get_pk_constraint("orders")["name"], "pk_orders")
        [foreign] = inspector.get_foreign_keys("orders")
        equal(
            (foreign["name"], foreign["referred_table"], foreign["options"]),
            ("fk_orders_customer_id", "customers", {"ondelete": "CASCADE"}),
        )
        equal(
            [one["name"] for one in inspector.get_unique_constraints("customers")],
            ["uq_customers_name"],
        )
        equal(
            [one["name"] for one in inspector.get_check_constraints("orders")], ["ck_orders_total"]
        )
        indexes = {one["name"]: one["column_names"] for one in inspector.get_indexes("customers")}
        equal(indexes["ix_customers_city"], ["city"])
        columns = {one["name"]: one for one in inspector.get_columns("customers")}
        equal(str(columns["name"]["type"]), "VARCHAR(50)")
        equal((columns["since"]["type"].timezone, columns["since"]["default"]), (True, "now()"))
        equal(
            (str(columns["tags"]["type"].item_type), str(columns["profile"]["type"])),
            ("TEXT", "JSONB"),
        )
        equal([one["name"] for one in inspector.get_enums()], ["order_state"])


@check("reflected tables are made again")
def _():
    with shop() as own:
        found = sa.MetaData()
        found.reflect(own)
        found.drop_all(own)
        found.create_all(own)
        again = sa.MetaData()
        again.reflect(own)

        def shape(metadata):
            return {
                table.name: (
                    [(one.name, str(one.type), one.nullable) for one in table.columns],
                    sorted(str(one.name) for one in table.constraints),
                    sorted(one.name for one in table.indexes),
                )
                for table in metadata.sorted_tables
            }

        equal(shape(again), shape(found))


@check("computed and identity columns, comments, partial indexes")
def _():
    metadata = sa.MetaData()
    table = sa.Table(
        "various", metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(start=100), primary_key=True, comment="the key"),
        sa.Column("a", sa.Integer), sa.Column("b", sa.Integer),
        sa.Column("product", sa.Integer, sa.Computed("a * b", persisted=True)),
        sa.Index("positive", "a", postgresql_where=sa.text("a > 0")),
        sa.Index("lowered", sa.text("(a + b)")), comment="a table of all sorts",
    )  # fmt: skip
    with engine() as own:
        metadata.create_all(own)
        with own.begin() as connection:
            equal(
                connection.execute(sa.insert(table).values(a=2, b=3)).inserted_primary_key[0], 100
            )
            equal(connection.scalar(sa.select(table.c.product)), 6)
        inspector = sa.inspect(own)
        equal(inspector.get_table_comment("various")["text"], "a table of all sorts")
        columns = {one["name"]: one for one in inspector.get_columns("various")}
        equal((columns["id"]["comment"], columns["id"]["identity"]["start"]), ("the key", 100))
        assert "a * b" in columns["product"]["computed"]["sqltext"], columns["product"]
        found = {one["name"]: one for one in inspector.get_indexes("various")}
        assert "a > 0" in found["positive"]["dialect_options"]["postgresql_where"], found
        equal(found["lowered"]["column_names"], [None])


@check("schemas and views")
def _():
    with engine() as own, own.begin() as connection:
        connection.execute(sa.schema.CreateSchema("audit", if_not_exists=True))
        metadata = sa.MetaData(schema="audit")
        table = sa.Table("log", metadata, sa.Column("id", sa.Integer, primary_key=True))
        metadata.create_all(connection)
        connection.execute(sa.insert(table), [{"id": 1}, {"id": 2}])
        connection.execute(sa.text("CREATE VIEW audit.last AS SELECT max(id) AS id FROM audit.log"))
        inspector = sa.inspect(connection)
        assert "audit" in inspector.get_schema_names()
        equal(
            (inspector.get_table_names("audit"), inspector.get_view_names("audit")),
            (["log"], ["last"]),
        )
        assert "max" in inspector.get_view_definition("last", "audit").lower()
        mapped = connection.execution_options(schema_translate_map={None: "audit"})
        log = sa.Table("log", sa.MetaData(), sa.Column("id", sa.Integer))
        equal(mapped.scalar(sa.select(sa.func.count()).select_from(log)), 2)


@check("a pool whose connections have died")
def _():
    with engine(pool_pre_ping=True, pool_size=1) as own, engine() as other:
        with own.connect() as connection:
            pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        with other.connect() as connection:
            connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        with own.connect() as connection:
            assert connection.scalar(sa.text("SELECT pg_backend_pid()")) != pid


@check("a queue with SKIP LOCKED, by four threads")
def _():
    metadata = sa.MetaData()
    jobs = sa.Table(
        "queue",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("worker", sa.Integer),
    )
    with engine() as own:
        metadata.create_all(own)
        with own.begin() as connection:
            connection.execute(sa.insert(jobs), [{"id": at} for at in range(100)])
        wrong = []

        def work(number):
            try:
                while True:
                    with own.begin() as connection:
                        job = connection.scalar(
                            sa.select(jobs.c.id).where(jobs.c.worker.is_(None)).order_by(jobs.c.id)
                            .limit(1).with_for_update(skip_locked=True)
                        )  # fmt: skip
                        if job is None:
                            return
                        connection.execute(
                            sa.update(jobs).where(jobs.c.id == job).values(worker=number)
                        )
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        [thread.start() for thread in threads]
        [thread.join(30) for thread in threads]
        assert not wrong, wrong[0]
        with own.connect() as connection:
            left = sa.select(sa.func.count()).select_from(jobs).where(jobs.c.worker.is_(None))
            equal(connection.scalar(left), 0)


def later(work):
    """Runs a check over asyncpg."""

    async def run():
        own = create_async_engine(url("postgresql+asyncpg"))
        try:
            await asyncio.wait_for(work(own), 15)
        finally:
            # Waits for the server, which closes the socket.
            await asyncio.wait_for(own.dispose(), 5)

    asyncio.run(run())


@check("create_all and reflection over asyncpg")
def _():
    async def work(own):
        async with own.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
            await connection.run_sync(Base.metadata.create_all)
            names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
        assert {"customers", "orders"} <= set(names), names

    later(work)


@check("objects are stored, changed and deleted over asyncpg")
def _():
    async def work(own):
        async with own.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(own) as session:
            session.add_all(
                Customer(name=f"n{at}", tags=["x"], profile={"at": at},
                         orders=[Order(placed=datetime.date(2024, 1, 1), total=at)])
                for at in range(50)
            )  # fmt: skip
            await session.commit()
            found = (await session.scalars(
                sa.select(Customer).options(orm.selectinload(Customer.orders))
                .where(Customer.id > 10).order_by(Customer.id)
            )).all()  # fmt: skip
            equal((len(found), found[0].orders[0].total), (40, decimal.Decimal("10.00")))
            found[0].orders[0].state = State.SENT
            await session.delete(found[1])
            await session.commit()
            count = sa.select(sa.func.count()).select_from(Order)
            equal(await session.scalar(count), 49)
            with refused(exc.IntegrityError):
                session.add(Customer(name="n1"))
                await session.commit()

    later(work)


@check("streams over asyncpg")
def _():
    async def work(own):
        async with own.connect() as connection:
            result = await connection.stream(
                sa.text("SELECT n FROM generate_series(1, 5000) AS g(n)")
            )
            equal(sum([row.n async for row in result]), 12502500)

    later(work)


main("sqlalchemy", sa.__version__)
