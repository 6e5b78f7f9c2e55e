"""SQLAlchemy over a database of this process; needs SQLAlchemy 2.1.

>>> from sqlalchemy import create_engine
>>> create_engine("atoll:///folder")        # relative; atoll:////home/me/folder is absolute
>>> create_engine("atoll://")               # in memory, as long as the engine lives
>>> create_engine("atoll:///folder?durability=group&memory_limit=4000000000")
>>> create_engine("atoll://", connect_args={"database": db})      # an open atolldb.Database

Connections of an engine are sessions of one database, in memory too. :func:`insert` has
``on_conflict_do_update`` and ``on_conflict_do_nothing``.

What Atoll lacks is an error of its own, with these exceptions:

- Reflection tells neither foreign keys and checks nor indexes.
- Indexes that a table has when it is created are made by its ``CREATE TABLE``.
- Lengths of texts are not checked. JSON, ``Enum`` and ``Uuid`` are kept as texts.
- ``DateTime(timezone=True)`` is kept in UTC; a time without a zone is taken for UTC.
"""

import datetime
import os
import re
import threading

from sqlalchemy import exc, types, util
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.dialects.postgresql.base import PGCompiler
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import default
from sqlalchemy.schema import Column, CreateIndex, CreateTable, Identity
from sqlalchemy.sql import compiler

import atolldb

from . import dbapi, errors

__all__ = ["AtollDialect", "Insert", "insert"]

#: The options of a URL, and what makes values of their texts.
_OPTIONS = {
    "durability": str,
    "memory_limit": int,
    "snapshot_age_max": float,
    "snapshot_bytes_max": int,
    "scheme": str,
}

_VERSION = tuple(int(part) for part in re.findall(r"\d+", atolldb.__version__)[:3])

#: Key of a connection's ``info``: the indexes that its last CREATE TABLE made.
_MADE = "atoll_made_indexes"

#: Words that Atoll reads as something other than a name in some places, besides the usual ones.
_RESERVED = frozenset(
    "cube current_catalog directory exists fulltext index interval key lateral local period "
    "replace returning rollup spatial top trim unnest".split()
)

_NO_AUTOINCREMENT = (
    "Atoll has no autoincrement: give each row its key, or Column(default=...) a function that "
    "makes one, such as uuid.uuid4 for a Uuid"
)


class _Compiler(PGCompiler):
    """Atoll's SQL is PostgreSQL's."""

    def _on_conflict_target(self, clause, **kw):
        if not hasattr(clause, "constraint_target"):
            # The statement was made with SQLite's insert().
            return SQLiteCompiler._on_conflict_target(self, clause, **kw)
        return super()._on_conflict_target(clause, **kw)

    def fetch_clause(self, select, **kw):
        # PostgreSQL's has parentheses.
        return compiler.SQLCompiler.fetch_clause(self, select, **kw)

    def visit_json_getitem_op_binary(self, binary, operator, **kw):
        raise exc.CompileError(
            "Atoll keeps JSON as text and does not look into it: select the value, and look there"
        )

    visit_json_path_getitem_op_binary = visit_json_getitem_op_binary


class _DDLCompiler(compiler.DDLCompiler):
    def get_column_default_string(self, column):
        if isinstance(column.server_default, Identity):
            raise exc.CompileError(
                "Atoll computes no identities: "
                "give Column(default=...) instead, which SQLAlchemy computes"
            )
        return super().get_column_default_string(column)

    def get_column_specification(self, column, **kwargs):
        if column.primary_key and column.autoincrement is True:
            raise exc.CompileError(_NO_AUTOINCREMENT)
        return super().get_column_specification(column, **kwargs)

    def create_table_constraints(self, table, **kw):
        parts = [super().create_table_constraints(table, **kw)]
        parts += [self._index(one) for one in sorted(table.indexes, key=lambda one: one.name)]
        return ", \n\t".join(part for part in parts if part)

    def _index(self, index):
        for column in index.expressions:
            if not isinstance(column, Column):
                raise exc.CompileError(
                    f"index {index.name}: an index of Atoll is over columns, in ascending order"
                )
        kind = "CONSTRAINT {} UNIQUE" if index.unique else "INDEX {}"
        columns = ", ".join(map(self.preparer.format_column, index.expressions))
        return f"{kind.format(self._prepared_index_name(index))} ({columns})"

    def visit_computed_column(self, generated, **kw):
        if generated.persisted is False:
            raise exc.CompileError("Atoll stores generated columns: Computed(..., persisted=True)")
        text = self.sql_compiler.process(
            generated.sqltext, include_table=False, literal_binds=True
        )
        return f"GENERATED ALWAYS AS ({text}) STORED"


class _TypeCompiler(compiler.GenericTypeCompiler):
    def _text(self, type_, **kw):
        if getattr(type_, "collation", None):
            raise exc.CompileError("Atoll compares texts by their code points, without collations")
        return "TEXT"

    visit_CHAR = visit_NCHAR = visit_VARCHAR = visit_NVARCHAR = visit_TEXT = _text  # noqa: N815
    visit_CLOB = visit_NCLOB = visit_uuid = visit_JSON = _text  # noqa: N815

    def visit_FLOAT(self, type_, **kw):  # noqa: N802 - the names are SQLAlchemy's
        return "DOUBLE PRECISION" if type_.precision is None else f"FLOAT({type_.precision})"

    def visit_DOUBLE(self, type_, **kw):  # noqa: N802
        return "DOUBLE PRECISION"

    def visit_DATETIME(self, type_, **kw):  # noqa: N802
        return "TIMESTAMP"

    def visit_TIME(self, type_, **kw):  # noqa: N802
        return "TIME"

    def visit_BLOB(self, type_, **kw):  # noqa: N802
        return "BYTEA"

    def visit_BINARY(self, type_, **kw):  # noqa: N802
        return f"BINARY({type_.length})" if type_.length else "BYTEA"

    visit_VARBINARY = visit_BLOB  # noqa: N815


class _Preparer(compiler.IdentifierPreparer):
    reserved_words = compiler.RESERVED_WORDS | _RESERVED


def _in_utc(value):
    """A time without its zone, in UTC."""
    if value is None or value.tzinfo is None:
        return value
    return value.astimezone(datetime.UTC).replace(tzinfo=None)


class _DateTime(types.DateTime):
    def bind_processor(self, dialect):
        return _in_utc if self.timezone else None

    def literal_processor(self, dialect):
        render = super().literal_processor(dialect)
        return (lambda value: render(_in_utc(value))) if self.timezone else render

    def result_processor(self, dialect, coltype):
        def process(value):
            # A year that Python does not have comes as a text.
            is_time = isinstance(value, datetime.datetime)
            return value.replace(tzinfo=datetime.UTC) if is_time else value

        return process if self.timezone else None


class _LargeBinary(types.LargeBinary):
    def literal_processor(self, dialect):
        return lambda value: f"CAST('\\x{bytes(value).hex()}' AS BYTEA)"


def _hint(error, context):
    """Says what to do where a key was left to the database."""
    statement = context.compiled.statement if context and context.isinsert else None
    key = getattr(getattr(statement, "table", None), "_autoincrement_column", None)
    if key is not None and str(error).startswith(f'column "{key.name}" must not be NULL'):
        error.args = (f"{error}\nhint: {_NO_AUTOINCREMENT}",)


class AtollDialect(default.DefaultDialect):
    name = "atoll"
    driver = "atolldb"
    default_paramstyle = "qmark"
    supports_statement_cache = True

    statement_compiler = _Compiler
    ddl_compiler = _DDLCompiler
    type_compiler_cls = _TypeCompiler
    preparer = _Preparer
    colspecs = {types.DateTime: _DateTime, types.LargeBinary: _LargeBinary}
    #: For PGCompiler: a backslash in a quoted text is a backslash.
    _backslash_escapes = False

    insert_returning = update_returning = delete_returning = True
    update_returning_multifrom = delete_returning_multifrom = True
    favor_returning_over_lastrowid = True
    use_insertmanyvalues = supports_multivalues_insert = True
    insertmanyvalues_max_parameters = 65_535
    max_identifier_length = 128
    supports_empty_insert = False
    supports_alter = False
    supports_native_boolean = supports_native_decimal = returns_native_bytes = True

    def __init__(self, json_serializer=None, json_deserializer=None, **options):
        super().__init__(**options)
        self._json_serializer, self._json_deserializer = json_serializer, json_deserializer
        #: The connection that keeps a database in memory; those of the pool share the database.
        self._keeper, self._lock = None, threading.Lock()

    @classmethod
    def import_dbapi(cls):
        return dbapi

    def retrieve_dbapi_version(self, dbapi):
        return util.VersionInfo(_VERSION, string=atolldb.__version__)

    def create_connect_args(self, url):
        if url.host or url.port or url.username or url.password:
            raise exc.ArgumentError(
                f"{url.render_as_string()} names a server, and Atoll runs in this process: write "
                "atoll:///folder, atoll:////absolute/folder, or atoll:// for a database in memory"
            )
        options = {}
        for name, text in url.query.items():
            if name not in _OPTIONS or not isinstance(text, str):
                known = ", ".join(_OPTIONS)
                raise exc.ArgumentError(f"{name} is no option of Atoll, once; there are {known}")
            try:
                options[name] = _OPTIONS[name](text)
            except ValueError as error:
                raise exc.ArgumentError(f"option {name}: {text!r} is not a number") from error
        if not url.database or url.database == ":memory:":
            if "durability" in options:
                raise exc.ArgumentError("durability is for a folder, and the URL names none")
            return [], options
        return [os.path.abspath(url.database)], options

    def connect(self, folder=None, **options):
        if folder is not None or "database" in options:
            return dbapi.connect(folder, **options)
        autocommit = options.pop("autocommit", False)
        with self._lock:
            if self._keeper is None:
                self._keeper = dbapi.connect(**options)
        return dbapi.connect(database=self._keeper.database, autocommit=autocommit)

    def is_disconnect(self, e, connection, cursor):
        return isinstance(e, dbapi.Error) and isinstance(e.cause, errors.Closed)

    def do_ping(self, dbapi_connection):
        return dbapi_connection.isolation is not None

    # Isolation levels.

    def get_isolation_level_values(self, dbapi_connection):
        return ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT")

    def get_default_isolation_level(self, dbapi_connection):
        return dbapi_connection.isolation.upper()

    def get_isolation_level(self, dbapi_connection):
        if dbapi_connection.autocommit:
            return "AUTOCOMMIT"
        return dbapi_connection.isolation.upper()

    def set_isolation_level(self, dbapi_connection, level):
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            dbapi_connection.isolation = level

    def detect_autocommit_setting(self, dbapi_connection):
        return dbapi_connection.autocommit

    # Statements.

    def do_execute(self, cursor, statement, parameters, context=None):
        definition = context.compiled.statement if context and context.isddl else None
        if isinstance(definition, CreateIndex):
            made = context.root_connection.info.get(_MADE, ())
            if definition.element in made:
                made.remove(definition.element)
                return
        try:
            cursor.execute(statement, parameters)
        except dbapi.IntegrityError as error:
            _hint(error, context)
            raise
        if isinstance(definition, CreateTable):
            context.root_connection.info[_MADE] = set(definition.element.indexes)

    def do_executemany(self, cursor, statement, parameters, context=None):
        try:
            cursor.executemany(statement, parameters)
        except dbapi.IntegrityError as error:
            _hint(error, context)
            raise

    # What there is. None of it begins a transaction.

    def _database(self, connection):
        return connection.connection.dbapi_connection.database

    def _get_server_version_info(self, connection):
        return _VERSION

    def _get_default_schema_name(self, connection):
        return "public"

    def get_schema_names(self, connection, **kw):
        return ["public"]

    def get_table_names(self, connection, schema=None, **kw):
        is_known = schema in (None, "public")
        return sorted(self._database(connection).tables) if is_known else []

    def has_table(self, connection, table_name, schema=None, **kw):
        return table_name in self.get_table_names(connection, schema)

    def _table(self, connection, name, schema):
        if not self.has_table(connection, name, schema):
            raise exc.NoSuchTableError(name if schema is None else f"{schema}.{name}")
        return self._database(connection).table(name)

    def get_columns(self, connection, table_name, schema=None, **kw):
        found = self._table(connection, table_name, schema).schema
        columns = zip(found.names, found.types, found.nullable, strict=True)
        return [
            {"name": name, "type": _type_of(arrow), "nullable": nullable, "default": None}
            for name, arrow, nullable in columns
        ]

    def get_pk_constraint(self, connection, table_name, schema=None, **kw):
        key = self._table(connection, table_name, schema).primary_key
        return {"name": None, "constrained_columns": key}

    def get_foreign_keys(self, connection, table_name, schema=None, **kw):
        raise NotImplementedError("Atoll does not tell which foreign keys a table has")

    def get_multi_foreign_keys(self, connection, **kw):
        return {}

    def get_check_constraints(self, connection, table_name, schema=None, **kw):
        raise NotImplementedError("Atoll does not tell which checks a table has")

    def get_multi_check_constraints(self, connection, **kw):
        return {}

    def get_indexes(self, connection, table_name, schema=None, **kw):
        raise NotImplementedError("Atoll does not tell which indexes a table has")

    def get_multi_indexes(self, connection, **kw):
        # Reflection asks for them in any case; a reflected table is without.
        return {}

    def get_unique_constraints(self, connection, table_name, schema=None, **kw):
        raise NotImplementedError("Atoll does not tell which unique constraints a table has")

    def get_view_names(self, connection, schema=None, **kw):
        is_known = schema in (None, "public")
        return sorted(self._database(connection).views) if is_known else []

    def get_temp_table_names(self, connection, schema=None, **kw):
        return []


def _type_of(arrow):
    """The type of a column with values of an Arrow type, as :class:`atolldb.Schema` names it."""
    name, _, arguments = arrow.rstrip(")").partition("(")
    numbers = [int(number) for number in arguments.split(",")] if name in _WITH_NUMBERS else []
    if name == "Timestamp" and "UTC" in arguments:
        return types.TIMESTAMP(timezone=True)
    return _TYPES[name](*numbers)


_WITH_NUMBERS = ("Decimal128", "FixedSizeBinary")
_TYPES = {
    "Int16": types.SMALLINT,
    "Int32": types.INTEGER,
    "Int64": types.BIGINT,
    "Float32": types.REAL,
    "Float64": types.DOUBLE_PRECISION,
    "Boolean": types.BOOLEAN,
    "Date32": types.DATE,
    "Time64": types.TIME,
    "Timestamp": types.TIMESTAMP,
    "Decimal128": types.NUMERIC,
    "Utf8View": types.TEXT,
    "BinaryView": types.LargeBinary,
    "FixedSizeBinary": types.BINARY,
}
