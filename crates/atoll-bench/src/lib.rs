//! atoll-bench
