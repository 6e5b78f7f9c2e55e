"""SQLAlchemy over Atoll: Core and ORM, transactions, reflection, types, pandas."""

import datetime
import decimal
import enum
import threading
import uuid

import pandas
import pytest
import sqlalchemy as sa
from sqlalchemy import exc, orm

import atolldb
from atolldb.sqlalchemy import insert


class Base(orm.DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owner"
    __table_args__ = (sa.UniqueConstraint("name", name="one_name"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50))
    city: orm.Mapped[str | None] = orm.mapped_column(index=True)
    accounts: orm.Mapped[list["Account"]] = orm.relationship(
        back_populates="owner", cascade="all, delete-orphan", order_by="Account.balance"
    )


class Account(Base):
    __tablename__ = "account"

    id: orm.Mapped[uuid.UUID] = orm.mapped_column(primary_key=True, default=uuid.uuid4)
    owner_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("owner.id"), index=True)
    balance: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(12, 2))
    owner: orm.Mapped[Owner] = orm.relationship(back_populates="accounts")


owner, account = Owner.__table__, Account.__table__
KEY = sa.Column("id", sa.Integer, primary_key=True)


def made(url):
    engine = sa.create_engine(url)
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    return engine


@pytest.fixture
def engine():
    return made("atoll://")


@pytest.fixture(params=["atoll://", "atoll:///{}/db?durability=none"])
def either(request, tmp_path):
    """An engine over a database in memory, and one over a folder."""
    engine = made(request.param.format(tmp_path))
    yield engine
    engine.dispose()


def fill(engine):
    with engine.begin() as connection:
        connection.execute(
            sa.insert(owner),
            [{"id": at, "name": f"n{at}", "city": "ab"[at % 2]} for at in range(1, 7)],
        )
        connection.execute(
            sa.insert(account),
            [{"owner_id": 1 + at % 4, "balance": decimal.Decimal(at)} for at in range(12)],
        )


def test_core_statements(engine):
    fill(engine)
    with engine.begin() as connection:
        run = connection.execute
        rows = [{"id": at, "name": f"n{at}"} for at in range(10, 2510)]
        made = run(sa.insert(owner).returning(owner.c.id, sort_by_parameter_order=True), rows)
        assert made.scalars().all() == list(range(10, 2510))
        assert run(sa.delete(owner).where(owner.c.id >= 10)).rowcount == 2500
        changed = sa.update(owner).where(owner.c.city == "a").values(name=owner.c.name + "!")
        assert sorted(run(changed.returning(owner.c.name)).scalars()) == ["n2!", "n4!", "n6!"]
        sums = (
            sa.select(owner.c.name, sa.func.sum(account.c.balance).label("sum"))
            .join(account, account.c.owner_id == owner.c.id)
            .group_by(owner.c.name)
            .having(sa.func.count() > 1)
            .order_by(sa.desc("sum"))
        )
        assert run(sums.limit(2).offset(1)).all() == [("n3", 18), ("n2!", 15)]
        assert run(sums.offset(3)).all() == [("n1", 12)]
        assert run(sums.fetch(1).offset(3)).all() == [("n1", 12)]
        poor = sa.select(owner.c.id).where(
            ~sa.exists().where(account.c.owner_id == owner.c.id), owner.c.id.in_([1, 5, 6])
        )
        assert run(poor.order_by(owner.c.id.desc())).scalars().all() == [6, 5]
        assert run(sa.select(owner).where(owner.c.id.in_([]))).all() == []
        rich = sa.select(sa.func.max(account.c.balance)).scalar_subquery()
        assert run(sa.select(account.c.owner_id).where(account.c.balance == rich)).all() == [(4,)]
        word = sa.cast(sa.literal("copy"), sa.Text)
        copied = sa.select(owner.c.id + 100, owner.c.name + "c", word)
        assert run(sa.insert(owner).from_select(["id", "name", "city"], copied)).rowcount == 6
        named = sa.select(owner.c.id).where(owner.c.name.ilike("N1C"))
        assert run(named.with_for_update()).all() == [(101,)]
        moved = sa.update(account).where(account.c.owner_id == owner.c.id, owner.c.name == "n1")
        assert run(moved.values(owner_id=owner.c.id + 4)).rowcount == 3
        gone = sa.delete(account).where(account.c.owner_id == owner.c.id, owner.c.city == "a")
        gone = run(gone.returning(account.c.balance)).scalars()
        assert sorted(gone) == [1, 3, 5, 7, 9, 11]
        one, two = owner.alias(), owner.alias()
        pairs = sa.select(one.c.id, two.c.id).join(two, one.c.id == two.c.id - 100)
        assert run(pairs.order_by(one.c.id).limit(1)).all() == [(1, 101)]
    with engine.connect() as connection:
        ranks = sa.select(owner.c.id, sa.func.rank().over(order_by=owner.c.id.desc()).label("r"))
        assert connection.execute(ranks.order_by("r").limit(1)).all() == [(106, 1)]
        both = sa.union(sa.select(owner.c.city), sa.select(sa.literal("z")))
        assert set(connection.execute(both).scalars()) == {"a", "b", "copy", "z"}


def test_upserts(engine):
    fill(engine)
    new = insert(owner).values(id=1, name="ann")
    update = new.on_conflict_do_update(
        index_elements=[owner.c.id], set_={"name": new.excluded.name}, where=owner.c.city == "b"
    )
    with engine.begin() as connection:
        assert connection.execute(update.returning(owner.c.name)).all() == [("ann",)]
        assert connection.execute(new.on_conflict_do_nothing()).rowcount == 0
        named = insert(owner).on_conflict_do_nothing(constraint="one_name")
        assert connection.execute(named, [{"id": 9, "name": "ann"}, {"id": 10, "name": "x"}])
        of_sqlite = sa.dialects.sqlite.insert(owner).values(id=1, name="y")
        connection.execute(of_sqlite.on_conflict_do_update(["id"], set_={"city": "c"}))
        rows = connection.execute(sa.select(owner).where(owner.c.id.in_([1, 9, 10])))
        assert sorted(rows.all()) == [(1, "ann", "c"), (10, "x", None)]


def test_sessions_of_the_orm(either):
    with orm.Session(either) as session:
        ann = Owner(id=1, name="ann", accounts=[Account(balance=at) for at in (30, 10)])
        session.add_all([ann, Owner(id=2, name="bob")])
        session.commit()
        assert [one.balance for one in ann.accounts] == [10, 30]
        ann.accounts.pop(0)
        ann.city = "here"
        with pytest.raises(exc.IntegrityError), session.begin_nested():
            session.add(Owner(id=3, name="bob"))
            session.flush()
        session.commit()
    with orm.Session(either) as session:
        loaded = session.scalars(sa.select(Owner).options(orm.joinedload(Owner.accounts))).unique()
        assert [(one.name, len(one.accounts)) for one in loaded] == [("ann", 1), ("bob", 0)]
        loaded = session.scalars(sa.select(Owner).options(orm.selectinload(Owner.accounts))).all()
        assert [len(one.accounts) for one in loaded] == [1, 0]
        more = sa.update(Account).where(Account.owner_id == Owner.id, Owner.name == "ann")
        more = more.values(balance=Account.balance + 5)
        session.execute(more, execution_options={"synchronize_session": "fetch"})
        assert loaded[0].accounts[0].balance == 35
        following = Owner(id=sa.select(sa.func.max(Owner.id) + 1).scalar_subquery(), name="cy")
        session.add(following)
        session.flush()
        assert following.id == 3
        session.delete(session.get(Owner, 1))
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Account)) == 0
        session.add(Owner(name="Eve"))
        with pytest.raises(exc.IntegrityError, match="no autoincrement: give each row its key"):
            session.commit()


def test_transactions_and_isolation(either):
    fill(either)
    with either.begin() as connection:
        with pytest.raises(exc.IntegrityError), connection.begin_nested():
            connection.execute(sa.delete(owner))
        connection.execute(sa.delete(account))
    count = sa.select(sa.func.count()).select_from(owner)
    with either.connect() as one, either.connect() as two:
        assert one.default_isolation_level == "READ COMMITTED"
        one.execute(sa.delete(owner).where(owner.c.id == 1))
        assert two.scalar(count) == 6
        with one.begin_nested() as savepoint:
            one.execute(sa.delete(owner))
            savepoint.rollback()
        one.commit()
        assert two.scalar(count) == 5
        two.rollback()
        for level in ["REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED"]:
            two.execution_options(isolation_level=level)
            shown = two.exec_driver_sql("SHOW transaction_isolation").scalar()
            assert (shown, two.get_isolation_level()) == (level.lower(), level)
            two.rollback()
        two.execution_options(isolation_level="AUTOCOMMIT")
        two.execute(sa.delete(owner).where(owner.c.id == 2))
        assert one.scalar(count) == 4
        two.commit()
        with pytest.raises(exc.ArgumentError):
            two.execution_options(isolation_level="CHAOS")
    with either.connect() as again:
        assert again.get_isolation_level() == "READ COMMITTED"
        again.execute(sa.delete(owner))
        sa.Table("late", sa.MetaData(), KEY._copy()).create(again)
        again.rollback()
    assert not sa.inspect(either).has_table("late")


def test_threads_share_the_database(either):
    fill(either)
    with either.begin() as connection:
        connection.execute(sa.update(owner).values(city="0"))

    def work():
        for _ in range(20):
            with orm.Session(either) as session:
                one = session.get(Owner, 1, with_for_update=True)
                one.city = str(int(one.city) + 1)
                session.commit()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with either.connect() as connection:
        assert connection.scalar(sa.select(owner.c.city).where(owner.c.id == 1)) == "80"


class Kind(enum.Enum):
    GOOD = 1
    BAD = 2


TYPED = [
    (sa.SmallInteger, -5, sa.SMALLINT),
    (sa.Integer, 7, sa.INTEGER),
    (sa.BigInteger, 2**40, sa.BIGINT),
    (sa.Numeric(12, 3), decimal.Decimal("-1.250"), sa.NUMERIC),
    (sa.Float, 0.1, sa.DOUBLE_PRECISION),
    (sa.REAL, 0.5, sa.REAL),
    (sa.Boolean, True, sa.BOOLEAN),
    (sa.String(20), "Käse '\\ %", sa.TEXT),
    (sa.Date, datetime.date(2024, 2, 29), sa.DATE),
    (sa.DateTime, datetime.datetime(2024, 2, 29, 1, 2, 3, 4), sa.TIMESTAMP),
    (
        sa.DateTime(timezone=True),
        datetime.datetime(2024, 7, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        sa.TIMESTAMP,
    ),
    (sa.Interval, datetime.timedelta(days=3, seconds=1), sa.TIMESTAMP),
    (sa.LargeBinary, b"\x00'\xff", sa.LargeBinary),
    (sa.BINARY(2), b"\x00\xff", sa.BINARY),
    (sa.JSON, {"a": [1, None, "ü"]}, sa.TEXT),
    (sa.Enum(Kind), Kind.BAD, sa.TEXT),
    (sa.Uuid, uuid.UUID(int=5), sa.TEXT),
    (sa.PickleType, {"x": 1}, sa.LargeBinary),
    (sa.VARBINARY(9), b"\x01", sa.LargeBinary),
    (sa.Time, datetime.time(1, 2, 3, 4), sa.TIME),
]


def test_types_come_back_and_are_reflected():
    engine, metadata = sa.create_engine("atoll://"), sa.MetaData()
    columns = [sa.Column(f"c{at}", kind) for at, (kind, *_) in enumerate(TYPED)]
    table = sa.Table("t", metadata, sa.Column("Key %", sa.Integer, primary_key=True), *columns)
    metadata.create_all(engine)
    values = {column.name: value for column, (_, value, _) in zip(columns, TYPED, strict=True)}
    key = table.c["Key %"]
    with engine.begin() as connection:
        connection.execute(sa.insert(table), {"Key %": 1, **values})
        connection.execute(sa.insert(table), {"Key %": 2, "c14": sa.JSON.NULL})
        found = connection.execute(sa.select(*columns).where(key == 1)).one()
        assert dict(found._mapping) == values
        assert set(connection.execute(sa.select(*columns[:14]).where(key == 2)).one()) == {None}
        for column, (_, value, _) in zip(columns[:13], TYPED, strict=False):
            found = connection.execute(sa.select(key).where(column == value))
            assert found.all() == [(1,)], column.name
            if not isinstance(column.type, sa.Interval):
                literal = sa.literal(value, column.type, literal_execute=True)
                found = connection.execute(sa.select(key).where(column == literal))
                assert found.all() == [(1,)], column.name
    reflected = sa.Table("t", sa.MetaData(), autoload_with=engine)
    kinds = [type(reflected.c[column.name].type) for column in columns]
    assert kinds == [kind for *_, kind in TYPED]
    assert (reflected.c.c3.type.precision, reflected.c.c3.type.scale) == (12, 3)
    assert reflected.c.c13.type.length == 2


def test_json_is_written_and_read_as_the_engine_says():
    options = {"json_serializer": lambda value: f"<{value}>", "json_deserializer": len}
    engine = sa.create_engine("atoll://", **options)
    table = sa.Table("t", sa.MetaData(), KEY._copy(), sa.Column("v", sa.JSON))
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(table), {"id": 1, "v": [1, 2]})
        assert connection.scalar(sa.select(table.c.v)) == len("<[1, 2]>")


def test_names_are_quoted_where_they_must_be():
    words = ["trim", "key", "index", "user", "exists", "Mixed", "a b", "p%", "q?", "r:s", "öl"]
    columns = [sa.Column(word, sa.Integer, index=word == "index") for word in words]
    table = sa.Table("replace", sa.MetaData(), KEY._copy(), *columns)
    key = sa.Column("c" * 70, sa.Integer, primary_key=True)
    long = sa.Table("t" * 70, sa.MetaData(), key, sa.Column("d" * 70, sa.Integer, index=True))
    engine = sa.create_engine("atoll://")
    with engine.begin() as connection:
        table.create(connection)
        long.create(connection)
        row = {word: at for at, word in enumerate(words)}
        connection.execute(sa.insert(table), {"id": 1, **row})
        for column in columns:
            connection.execute(sa.update(table).values({column: column + 1}).where(column >= 0))
        found = connection.execute(sa.select(table).order_by(*columns)).one()
        assert found[1:] == tuple(range(1, len(words) + 1))
        connection.execute(sa.insert(long), {"c" * 70: 1})
        joined = long.join(table, table.c.id == key)
        assert connection.execute(sa.select(key, table).select_from(joined)).one()[:2] == (1, 1)
        both = sa.select(long).set_label_style(sa.LABEL_STYLE_TABLENAME_PLUS_COL)
        assert connection.execute(both).all() == [(1, None)]
        with pytest.raises(exc.CompileError, match="empty inserts"):
            connection.execute(sa.insert(table).values())


def test_what_there_is(engine):
    found = sa.inspect(engine)
    assert found.get_table_names() == found.get_table_names("public") == ["account", "owner"]
    assert found.get_schema_names() == ["public"]
    assert found.has_table("owner") and not found.has_table("Owner")
    assert not found.has_table("owner", schema="other")
    assert [column["nullable"] for column in found.get_columns("owner")] == [False, False, True]
    assert found.get_pk_constraint("owner")["constrained_columns"] == ["id"]
    for call in [
        found.get_foreign_keys,
        found.get_check_constraints,
        found.get_indexes,
        found.get_unique_constraints,
    ]:
        with pytest.raises(NotImplementedError, match="Atoll does not tell"):
            call("owner")
    with pytest.raises(exc.NoSuchTableError):
        found.get_columns("missing")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE VIEW named AS SELECT id FROM owner"))
    found = sa.inspect(engine)
    assert found.get_view_names() == found.get_view_names("public") == ["named"]
    assert found.get_table_names() == ["account", "owner"]
    metadata = sa.MetaData()
    metadata.reflect(engine)
    assert metadata.tables["owner"].primary_key.columns.keys() == ["id"]


def test_indexes_are_made_with_their_table_and_later(engine):
    with engine.connect() as connection:
        plan = "EXPLAIN SELECT id FROM {} WHERE {} = 'x'"
        by_city = connection.exec_driver_sql(plan.format("owner", "city")).scalar()
        by_name = connection.exec_driver_sql(plan.format("owner", "name")).scalar()
    assert "ix_owner_city" in by_city and "one_name" in by_name
    once = sa.Table("once", sa.MetaData(), KEY._copy(), sa.Column("v", sa.Integer))
    sa.Index("once_v", once.c.v, unique=True)
    once.create(engine)
    with pytest.raises(exc.IntegrityError), engine.begin() as connection:
        connection.execute(sa.insert(once), [{"id": at, "v": 5} for at in range(2)])
    late = sa.Index("late", owner.c.name, owner.c.city)
    late.create(engine)
    owner.indexes.remove(late)
    with engine.connect() as connection:
        plan = "EXPLAIN SELECT id FROM owner WHERE name = 'x' AND city = 'y'"
        assert "late" in connection.exec_driver_sql(plan).scalar()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([KEY, sa.Column("x", sa.Integer, server_default="a")], "is not an integer"),
        ([KEY, sa.Column("x", sa.Integer, sa.Computed("id", persisted=False))], "Atoll stores"),
        ([KEY, sa.Column("x", sa.Integer), sa.ForeignKeyConstraint(["x"], ["t.x"])], "unique"),
        ([sa.Column("id", sa.Integer, primary_key=True, autoincrement=True)], "no autoincrement"),
        ([KEY, sa.Column("x", sa.Numeric)], "without precision"),
        ([KEY, sa.Column("x", sa.String(collation="de"))], "without collations"),
        ([KEY, sa.CheckConstraint("x > 0")], "\"x\" does not exist"),
        ([KEY, sa.Index("i", sa.text("id + 1"))], "over columns"),
    ],
)
def test_what_no_table_has_is_refused(parts, message):
    table = sa.Table("t", sa.MetaData(), *(part._copy() if part is KEY else part for part in parts))
    engine = sa.create_engine("atoll://")
    with pytest.raises((exc.CompileError, exc.DBAPIError), match=message):
        table.create(engine)
    assert not sa.inspect(engine).has_table("t")


def test_defaults_and_checks_are_those_of_the_database(engine):
    columns = sa.Column("x", sa.Integer, server_default="5"), sa.CheckConstraint("x < 9")
    table = sa.Table("ruled", sa.MetaData(), KEY._copy(), *columns)
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(table), {"id": 1})
        assert connection.scalar(sa.select(table.c.x)) == 5
    with pytest.raises(exc.IntegrityError), engine.begin() as connection:
        connection.execute(sa.insert(table), {"id": 2, "x": 9})


def test_tables_are_dropped(engine):
    Base.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []
    Base.metadata.create_all(engine)
    assert "owner" in sa.inspect(engine).get_table_names()


def test_urls_and_options(tmp_path, monkeypatch):
    for url, message in [
        ("atoll://host/db", "names a server"),
        ("atoll://?size=5", "size is no option of Atoll"),
        ("atoll://?memory_limit=much", "not a number"),
        ("atoll://?durability=none", "durability is for a folder"),
    ]:
        with pytest.raises(exc.ArgumentError, match=message):
            sa.create_engine(url)
    one = sa.create_engine(f"atoll:///{tmp_path}/db?durability=group")
    two = sa.create_engine(f"atoll+atolldb:///{tmp_path}/db?durability=none")
    with one.connect() as connection:
        assert connection.exec_driver_sql("SHOW durability").scalar() == "group:10"
        with pytest.raises(exc.InterfaceError, match="is open in this process with another"):
            two.connect()
    one.dispose()
    with two.connect() as connection:
        assert connection.exec_driver_sql("SHOW durability").scalar() == "none"
        connection.rollback()
        connection.exec_driver_sql("CREATE TABLE t (id int PRIMARY KEY)")
    two.dispose()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    relative = sa.create_engine("atoll:///db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert sa.inspect(relative).get_table_names() == ["t"]
    relative.dispose()


def test_a_closed_database_ends_its_connections():
    database = atolldb.create()
    engine = sa.create_engine("atoll://", connect_args={"database": database}, pool_pre_ping=True)
    with engine.connect() as connection:
        assert connection.scalar(sa.select(1)) == 1
    pooled = engine.raw_connection()
    session = pooled.dbapi_connection
    pooled.close()
    session.close()
    with engine.connect() as connection:
        assert connection.scalar(sa.select(1)) == 1
        connection.rollback()
        database.close()
        with pytest.raises(exc.InterfaceError) as raised:
            connection.scalar(sa.select(1))
        assert raised.value.connection_invalidated
    with pytest.raises(exc.InterfaceError, match="the database is closed"):
        engine.connect()


def test_errors_have_their_classes(engine):
    fill(engine)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement, kind in [
            (sa.insert(owner).values(id=1, name="x"), exc.IntegrityError),
            (sa.insert(owner).values(id=2**40, name="x"), exc.DataError),
            (sa.select(sa.column("nothing")).select_from(owner), exc.ProgrammingError),
            (sa.text("SELECT FROM WHERE"), exc.ProgrammingError),
            (sa.text("CREATE MATERIALIZED VIEW v AS SELECT 1"), exc.NotSupportedError),
            (sa.select(sa.literal(1j, sa.types.NullType())), exc.ProgrammingError),
        ]:
            with pytest.raises(kind):
                connection.execute(statement)
        document = sa.Column("document", sa.JSON)
        with pytest.raises(exc.CompileError, match="does not look into it"):
            connection.execute(sa.select(document["a"]))


def test_pandas_reads_and_appends(engine):
    frame = pandas.DataFrame({"id": range(1, 1501), "name": [f"n{at}" for at in range(1500)]})
    frame["city"] = None
    for method, rows in [(None, frame[:500]), ("multi", frame[500:])]:
        rows.to_sql("owner", engine, if_exists="append", index=False, method=method)
    few = pandas.read_sql(sa.select(owner).where(owner.c.id <= 2), engine, index_col="id")
    assert few["name"].tolist() == ["n0", "n1"]
    assert len(pandas.read_sql("owner", engine, columns=["id"])) == 1500
    text = "SELECT count(*) AS n FROM owner WHERE id > ?"
    assert pandas.read_sql(text, engine, params=(500,))["n"].tolist() == [1000]
    frame.to_sql("new", engine, index=False)
    assert pandas.read_sql("SELECT * FROM new ORDER BY id", engine).equals(frame)
