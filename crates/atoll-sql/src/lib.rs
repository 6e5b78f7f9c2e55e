//! SQL for Atoll: short statements on the live database, everything else on a snapshot.
//!
//! A query, or a change of rows, is bound once and kept by its text for all sessions (`prepared`).
//! Its plan is DataFusion's, compiled into a few nodes over the rows of a transaction (`short`).
//! What is not short runs by DataFusion over the segments of a snapshot, in place: a scan returns
//! the Arrow buffers of the snapshot itself (`query`). `docs/internals/statement.md` follows a
//! statement through the code. Every error is a [`SqlError`] with a message and, where it is known,
//! line and column.
//!
//! `SQL-1`: a `SELECT` reads and writes no file but spill files (`limits`), and does not change the
//! session: its plans are refused when they contain anything but reading the snapshot's tables.
//! `SQL-2`: a statement that fails changes nothing.

#![forbid(unsafe_code)]

mod about;
mod alter;
mod array_text;
mod arrow_value;
mod assigned;
mod binary;
mod bulk;
mod calendar;
mod catalog_names;
mod clauses;
mod clock;
mod comments;
mod coordination;
mod copy;
mod copy_binary;
mod copy_syntax;
mod copy_text;
mod csv;
mod custom_settings;
mod ddl;
mod ddl_rules;
mod declared;
mod depth;
mod dialect;
mod domain_syntax;
mod domain_type;
mod dump;
mod engine;
mod enums;
mod error;
mod eval;
mod explain_json;
mod fetch_syntax;
mod fixed_settings;
mod fold;
mod foreign;
mod foreign_key;
mod foreign_syntax;
mod frame_offsets;
mod grant_names;
mod guess;
mod idle;
mod infer;
mod input;
mod interrupt;
mod interval;
mod isolation;
mod journal;
mod json;
mod lengths;
mod like_clause;
mod limits;
mod literal;
mod live;
mod load;
mod mark;
mod mode_syntax;
mod moment;
mod mutex;
mod names;
mod needed;
mod notice;
mod nulls_syntax;
mod object_syntax;
mod operator_tokens;
mod output_names;
mod panics;
mod parameter_name;
mod parquet;
mod parse;
mod path_functions;
mod prepared;
mod privileges;
mod provider;
mod prune;
mod query;
mod query_error;
mod question_marks;
mod quoted;
mod records;
mod resolve;
mod result;
mod rights;
mod rows;
mod ruled;
mod rules;
mod scan;
mod schemas;
mod scope;
mod search_path;
mod sequence;
mod sequence_names;
mod sequence_relation;
mod sequence_syntax;
mod session;
mod session_settings;
mod set_config;
mod setting_time;
mod setting_values;
mod settings;
mod short;
mod show;
mod sink;
mod sqlite;
mod sqlstate;
mod statement_end;
mod stream;
mod system;
mod table_shape;
mod text;
mod ties;
mod txn;
mod types;
mod user_types;
mod uuid;
mod view;
mod watch;
mod with_syntax;
mod wording;
mod written;
mod zone;

pub use about::About;
pub use arrow_value::{literal_at, plain as plain_array};
pub use binary::from_binary;
pub use comments::Comments;
pub use coordination::{Notification, Waker};
pub use copy::{copies_from_stdin, copy_from};
pub use declared::domain::Domain;
pub use declared::{Check, Declared};
pub use dump::{DumpError, DumpOptions, dump};
pub use error::{Cause, ChangeError, SqlError, SqlErrorKind};
pub use foreign_key::{Action, ForeignKey, Timing};
pub use infer::{Created, create_table_from, narrowest_column_type};
pub use input::Input;
pub use interrupt::Question;
pub use isolation::{database_options, default_scheme, lock_timeout};
pub use lengths::{text_in_column, varchar_limit};
pub use limits::{QueryLimits, QueryMemory, query_limits, set_query_limits};
pub use literal::Literal;
pub use load::{Format, LoadOptions, Loaded, OnConflict, Progress};
pub use moment::{show_interval, show_moment, show_time};
pub use names::{relation_in_text, tablespace_name};
pub use notice::{Notice, NoticeLevel};
pub use prepared::written_types::ToldType;
pub use privileges::{RoleInfo, Roles};
pub use quoted::quoted_if_needed;
pub use result::QueryResult;
pub use rows::{FromRow, FromValue, Params, Row};
pub use schemas::{
    comment_in_snapshot, comment_on_schema, flat, relation_name, schemas_in, schemas_of, split,
};
pub use session::{
    AsStatement, CopyEnd, CopyFormat, CopyIn, CopyOut, Description, Outcome, PreparedStatement,
    SqlSession, Surroundings, TransactionStatus,
};
pub use show::{
    bytes as show_bytes, date as show_date, decimal as show_decimal, double as show_double,
    real as show_real, timestamp as show_timestamp,
};
pub use sqlite::SqliteScript;
pub use statement_end::{StatementScanner, statement_is_complete};
pub use stream::QueryStream;
pub use system::{
    ClientState, NamedSnapshot, SYSTEM_TYPE, Serving, SystemClient, SystemRole, SystemStatement,
    function_name,
};
pub use types::of_field as type_of_field;
pub use user_types::UserType;
pub use uuid::show as show_uuid;
pub use view::{View, ViewColumn};
pub use wording::in_words_of_sql;
pub use zone::show as show_instant;
