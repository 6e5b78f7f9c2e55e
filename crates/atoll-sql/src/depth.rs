//! How complex a statement may be, and the stack that one needs.
//!
//! The tree of a statement is built, copied, shown, run and dropped by recursion, and the caller's
//! thread may have a small stack. `DEPTH-1`: a statement with a tree that could be deeper than
//! [`DEPTH_MAX`] is refused before it is parsed; its tokens give a bound. `DEPTH-2`: the tree of
//! one that is deeper than [`SHALLOW`] is touched only inside [`with_room`].

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, SetExpr, Statement, TableFactor, Visit, Visitor};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Cause, SqlError, SqlErrorKind};

/// Deepest tree of a statement.
const DEPTH_MAX: usize = 1024;
/// Deepest tree that any stack has room for.
const SHALLOW: usize = 16;
/// What parentheses and the like add: the parser enters many functions for each. A table of a join
/// adds as much, since plans of joins are nested.
const NESTED: usize = 8;
/// Stack for the deepest tree.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// What stands between one parenthesis, or CASE, and the end of it.
#[derive(Default)]
struct Level {
    is_case: bool,
    /// Between FROM and the next clause.
    is_from: bool,
    /// Of the part since the last comma: what its operators add, and the deepest level inside.
    operators: usize,
    inside: usize,
    /// Of the parts before it.
    most: usize,
}

impl Level {
    fn part(&self) -> usize {
        self.operators + self.inside
    }

    fn depth(&self) -> usize {
        self.most.max(self.part())
    }
}

/// A bound of how deep the tree of a statement is.
///
/// # Errors
/// It may be too deep.
pub(crate) fn of(tokens: &[TokenWithSpan]) -> Result<usize, SqlError> {
    let mut levels = vec![Level::default()];
    let mut last = &Token::EOF;
    for TokenWithSpan { token, span } in tokens {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let nested = levels.len() * NESTED;
        let top = levels.last_mut().expect("the outermost level is never closed");
        match step(token, last, top.is_from) {
            Step::Open => {
                // Behind a type it makes another type of it.
                top.operators += usize::from(*token == Token::LBracket);
                let is_case = !matches!(token, Token::LParen | Token::LBracket | Token::LBrace);
                levels.push(Level { is_case, ..Level::default() });
            }
            Step::Close { case } => {
                if levels.len() > 1 && levels.last().is_some_and(|top| top.is_case == case) {
                    let depth = levels.pop().map_or(0, |closed| closed.depth() + NESTED);
                    if let Some(top) = levels.last_mut() {
                        top.inside = top.inside.max(depth);
                    }
                }
            }
            Step::Comma => {
                top.most = top.depth();
                (top.operators, top.inside) = (0, 0);
            }
            Step::Operator(adds) => top.operators += adds,
            Step::From(is_from) => top.is_from = is_from,
            Step::Other => {}
        }
        let deepest = levels.last().map_or(0, Level::depth).max(nested);
        if deepest > DEPTH_MAX {
            return Err(too_complex().at(*span));
        }
        last = token;
    }
    // Parentheses that are not closed are an error of the parser.
    let depth = levels.iter().map(|level| level.depth() + NESTED).sum::<usize>() - NESTED;
    if depth > DEPTH_MAX { Err(too_complex()) } else { Ok(depth) }
}

/// The error for a statement that is too complex.
pub(crate) fn too_complex() -> SqlError {
    SqlError::new(SqlErrorKind::Syntax, "the statement is nested too deeply; split it")
        .with_cause(Cause::TooComplex)
}

enum Step {
    Open,
    Close { case: bool },
    Comma,
    Operator(usize),
    From(bool),
    Other,
}

fn step(token: &Token, last: &Token, is_from: bool) -> Step {
    match token {
        Token::LParen | Token::LBracket | Token::LBrace => Step::Open,
        Token::RParen | Token::RBracket | Token::RBrace => Step::Close { case: false },
        Token::Comma if is_from => Step::Operator(NESTED),
        Token::Comma => Step::Comma,
        Token::Word(word) if word.quote_style.is_none() => of_keyword(word.keyword, last),
        Token::Word(_)
        | Token::Number(..)
        | Token::Placeholder(_)
        | Token::Period
        | Token::SingleQuotedString(_)
        | Token::EOF => Step::Other,
        // Behind another operator it stands before its operand.
        _ if matches!(last, Token::Plus | Token::Minus | Token::Tilde | Token::AtSign) => {
            Step::Operator(NESTED)
        }
        _ => Step::Operator(1),
    }
}

fn of_keyword(keyword: Keyword, last: &Token) -> Step {
    use Keyword as K;
    let is_repeated = matches!(last, Token::Word(word) if word.keyword == keyword);
    match keyword {
        K::CASE => Step::Open,
        K::END => Step::Close { case: true },
        K::FROM | K::USING => Step::From(true),
        K::SELECT | K::WHERE | K::GROUP | K::HAVING | K::ORDER | K::LIMIT | K::SET | K::VALUES => {
            Step::From(false)
        }
        K::NOT | K::INTERVAL if is_repeated => Step::Operator(NESTED),
        K::JOIN | K::EXPLAIN | K::PREPARE | K::PIVOT | K::UNPIVOT | K::MATCH_RECOGNIZE => {
            Step::Operator(NESTED)
        }
        K::PRIOR | K::CONNECT_BY_ROOT => Step::Operator(NESTED),
        K::AND
        | K::OR
        | K::XOR
        | K::NOT
        | K::IS
        | K::NOTNULL
        | K::LIKE
        | K::ILIKE
        | K::SIMILAR
        | K::RLIKE
        | K::REGEXP
        | K::IN
        | K::BETWEEN
        | K::AT
        | K::COLLATE
        | K::INTERVAL
        | K::OPERATOR
        | K::OVERLAPS
        | K::DIV
        | K::MEMBER
        | K::UNION
        | K::INTERSECT
        | K::EXCEPT
        | K::MINUS => Step::Operator(1),
        _ => Step::Other,
    }
}

/// Whether the tree of a statement needs [`with_room`].
pub(crate) fn is_deep(statement: &Statement) -> bool {
    #[derive(Default)]
    struct Measure {
        now: usize,
        most: usize,
        tables: usize,
    }
    impl Visitor for Measure {
        type Break = ();
        fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
            self.now += 1;
            self.most = self.most.max(self.now);
            ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
            self.now -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.now += 1 + operations(query);
            self.most = self.most.max(self.now);
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.now -= 1 + operations(query);
            ControlFlow::Continue(())
        }
        fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
            self.tables += 1;
            ControlFlow::Continue(())
        }
    }
    let mut measure = Measure::default();
    // The visitor never breaks off.
    let _ = statement.visit(&mut measure);
    measure.most.max(measure.tables) > SHALLOW
}

/// How many UNION and the like a query has beside its subqueries.
fn operations(query: &Query) -> usize {
    let (mut count, mut left) = (0, vec![query.body.as_ref()]);
    while let Some(body) = left.pop() {
        if let SetExpr::SetOperation { left: one, right: other, .. } = body {
            count += 1;
            left.extend([one.as_ref(), other.as_ref()]);
        }
    }
    count
}

/// Runs `work`, on a stack for the deepest tree if `depth` needs it.
pub(crate) fn with_room_for<R>(depth: usize, work: impl FnOnce() -> R) -> R {
    if depth > SHALLOW { with_room(work) } else { work() }
}

/// Runs `work` on a stack for the deepest tree.
pub(crate) fn with_room<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(STACK_BYTES, STACK_BYTES, work)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn depth(sql: &str) -> Option<usize> {
        let tokens = crate::parse::split(sql).unwrap().remove(0);
        of(&tokens).ok()
    }

    #[test]
    fn lists_are_wide_and_not_deep() {
        let many = |item: &str| vec![item; 5000].join(", ");
        for sql in [
            format!("SELECT id FROM t WHERE id IN ({})", many("1")),
            format!("INSERT INTO t VALUES {}", many("(1, -2, 'a' || 'b')")),
            format!("SELECT {} FROM t", many("a + 1")),
            format!("SELECT CASE a {} END", "WHEN 1 THEN 2 ".repeat(5000)),
            format!("CREATE TABLE t ({})", many("a int NOT NULL")),
        ] {
            assert!(depth(&sql).unwrap() <= 32, "{}", &sql[..40]);
        }
    }

    #[test]
    fn chains_and_nests_are_deep() {
        let nest = |open: &str, close: &str| format!("{}1{}", open.repeat(129), close.repeat(129));
        for (sql, fits) in [
            (vec!["a = 1"; 500].join(" OR "), true),
            (vec!["a = 1"; 600].join(" OR "), false),
            (vec!["SELECT 1"; 1000].join(" UNION "), true),
            (vec!["SELECT 1"; 1100].join(" UNION "), false),
            (format!("1{}", "::int".repeat(1100)), false),
            (format!("FROM {}", vec!["t"; 100].join(", ")), true),
            (format!("FROM {}", vec!["t"; 200].join(", ")), false),
            (nest("(", ")"), false),
            (nest("CASE WHEN ", " THEN 1 END"), false),
            (nest("NOT ", ""), false),
            (nest("- ", ""), false),
            // What is left of an operator is inside of it, however it is written.
            (format!("({}) + {}", vec!["1"; 600].join("+"), vec!["1"; 600].join("+")), false),
            (format!("({}), ({0})", vec!["1"; 600].join("+")), true),
        ] {
            assert_eq!(depth(&format!("SELECT {sql}")).is_some(), fits, "{}", &sql[..20]);
        }
    }

    #[test]
    fn a_deep_statement_is_known_by_its_tree() {
        for (sql, deep) in [
            ("SELECT a FROM t WHERE b = 1 AND c = 2".to_owned(), false),
            (format!("SELECT {}", vec!["a"; 40].join(" + ")), true),
            (vec!["SELECT 1"; 40].join(" UNION "), true),
            (format!("SELECT 1 FROM {}", vec!["t"; 40].join(", ")), true),
        ] {
            assert_eq!(is_deep(&crate::parse::one(&sql).unwrap()), deep, "{sql}");
        }
    }
}
