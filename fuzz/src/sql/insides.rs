//! Words that show the insides of a library; no message has them.

pub const INSIDES: [&str; 16] = [
    "DataFusion",
    "datafusion",
    "Arrow",
    "Utf8",
    "Int64",
    "Decimal128",
    "Date32",
    "View",
    "Boolean",
    "nternal error",
    "likely caused by a bug",
    "panicked",
    "backtrace",
    "Ident {",
    "Field {",
    "Candidate functions",
];
