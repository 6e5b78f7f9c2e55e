//! Constants of a statement as parameters, so that statements which differ only in their constants
//! are bound once: `… WHERE id = 5` is run as `… WHERE id = $1` with the value 5.
//!
//! `LIFT-1`: a constant is lifted only where a parameter means the same: as a whole side of a
//! comparison, an assignment, BETWEEN or IN (as a quoted literal, it takes the type of the other
//! side), or as a number in arithmetic (with the type that PostgreSQL gives it). Whatever goes
//! wrong before the statement runs, it is bound again as it is written.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::literal::Literal;

/// Most constants that become parameters: a list of parameters is planned one by one, and a list of
/// constants is not.
const LIFTED_MAX: usize = 256;

/// A statement with parameters in place of constants.
pub(crate) struct Lifted {
    pub(crate) text: String,
    pub(crate) values: Vec<Literal>,
}

/// What stands before a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A comparison or an assignment.
    Comparison,
    /// The word BETWEEN, the AND that belongs to it, or a place in the list of an IN.
    Range,
    /// `+ - * / %` between two operands.
    Arithmetic,
    Other,
}

/// Lifts the constants of a statement; `None` if it has none that can be lifted, or parameters.
pub(crate) fn lift(tokens: &[TokenWithSpan]) -> Option<Lifted> {
    let tokens: Vec<&Token> = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let first = tokens.first().and_then(|token| keyword(token))?;
    if !matches!(first, Keyword::SELECT | Keyword::UPDATE | Keyword::DELETE) {
        return None;
    }
    let mut lifted = Lifted { text: String::with_capacity(tokens.len() * 6), values: Vec::new() };
    let mut state = State::default();
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at];
        if matches!(token, Token::Placeholder(_) | Token::Question) {
            return None;
        }
        let before = state.before;
        match state.constant(&tokens, at, before) {
            Some((value, length)) => {
                lifted.add(value, before, state.is_operand(&tokens, at + length));
                at += length;
                state.after_operand();
            }
            None => {
                lifted.text.push_str(&token.to_string());
                lifted.text.push(' ');
                state.pass(token);
                at += 1;
            }
        }
    }
    (1..=LIFTED_MAX).contains(&lifted.values.len()).then_some(lifted)
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn is_arithmetic(token: &Token) -> bool {
    matches!(token, Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod)
}

impl Lifted {
    /// Adds a constant; as an operand of arithmetic a number has its own type.
    fn add(&mut self, value: Literal, before: Before, is_operand: bool) {
        let number = self.values.len() + 1;
        let declared = match &value {
            _ if before != Before::Arithmetic && !is_operand => None,
            Literal::Integer(value) if i32::try_from(*value).is_ok() => Some("integer".to_owned()),
            Literal::Integer(value) if i64::try_from(*value).is_ok() => Some("bigint".to_owned()),
            Literal::Decimal(digits, scale) => {
                let digits = digits.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
                Some(format!("decimal({},{scale})", digits.max(u32::from(*scale))))
            }
            _ => None,
        };
        let text = match declared {
            Some(data_type) => format!("CAST(${number} AS {data_type}) "),
            None => format!("${number} "),
        };
        self.text.push_str(&text);
        self.values.push(value);
    }
}

/// Where in a statement the search is.
struct State {
    before: Before,
    /// Behind WHERE, SET or ON, where no constant is a column of a result.
    is_open: bool,
    /// Between BETWEEN and its AND.
    in_between: bool,
    /// Parentheses since the one that opened the list of an IN.
    list: Option<u32>,
    /// The last token was IN.
    opens_list: bool,
    /// The last token ended an operand.
    has_operand: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            before: Before::Other,
            is_open: false,
            in_between: false,
            list: None,
            opens_list: false,
            has_operand: false,
        }
    }
}

impl State {
    /// The constant that begins here, and of how many tokens it consists.
    fn constant(&self, tokens: &[&Token], at: usize, before: Before) -> Option<(Literal, usize)> {
        if !self.is_open || before == Before::Other {
            return None;
        }
        let (value, length) = match (tokens[at], tokens.get(at + 1)) {
            (Token::Number(digits, false), _) => (Literal::number(digits)?, 1),
            (Token::Minus, Some(Token::Number(digits, false))) => {
                (Literal::number(&format!("-{digits}"))?, 2)
            }
            (Token::SingleQuotedString(text), _) if before != Before::Arithmetic => {
                (Literal::Text(text.clone()), 1)
            }
            _ => return None,
        };
        if matches!(value, Literal::Float(_)) {
            return None;
        }
        let is_number = !matches!(value, Literal::Text(_));
        let ends = match tokens.get(at + length) {
            None | Some(Token::Comma | Token::RParen) => true,
            Some(next) if is_arithmetic(next) => is_number && before != Before::Range,
            Some(next) => matches!(
                keyword(next),
                Some(
                    Keyword::AND
                        | Keyword::OR
                        | Keyword::WHERE
                        | Keyword::FROM
                        | Keyword::ORDER
                        | Keyword::GROUP
                        | Keyword::LIMIT
                        | Keyword::OFFSET
                        | Keyword::FETCH
                        | Keyword::RETURNING
                )
            ),
        };
        ends.then_some((value, length))
    }

    /// Whether the constant before this place is an operand of arithmetic.
    fn is_operand(&self, tokens: &[&Token], next: usize) -> bool {
        tokens.get(next).is_some_and(|next| is_arithmetic(next))
    }

    fn after_operand(&mut self) {
        (self.before, self.has_operand, self.opens_list) = (Before::Other, true, false);
    }

    fn pass(&mut self, token: &Token) {
        let had_operand = std::mem::take(&mut self.has_operand);
        let opens_list = std::mem::take(&mut self.opens_list);
        self.before = Before::Other;
        match token {
            Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => {
                self.before = Before::Comparison;
            }
            operator if is_arithmetic(operator) && had_operand => {
                self.before = Before::Arithmetic;
            }
            Token::LParen => {
                self.list = match self.list {
                    None if opens_list => Some(0),
                    list => list.map(|depth| depth + 1),
                };
                if self.list == Some(0) {
                    self.before = Before::Range;
                }
            }
            Token::RParen => {
                self.list = self.list.and_then(|depth| depth.checked_sub(1));
                self.has_operand = true;
            }
            Token::Comma if self.list == Some(0) => self.before = Before::Range,
            Token::Word(_) => self.word(token),
            _ => {}
        }
    }

    fn word(&mut self, token: &Token) {
        match keyword(token) {
            Some(Keyword::WHERE | Keyword::SET | Keyword::ON) => self.is_open = true,
            // The list of results of a subquery.
            Some(Keyword::SELECT | Keyword::RETURNING) => self.is_open = false,
            Some(Keyword::BETWEEN) => {
                (self.before, self.in_between) = (Before::Range, true);
            }
            Some(Keyword::AND) if std::mem::take(&mut self.in_between) => {
                self.before = Before::Range;
            }
            Some(Keyword::IN) => self.opens_list = true,
            Some(Keyword::NoKeyword) | None => self.has_operand = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn lifted(sql: &str) -> Option<(String, Vec<Literal>)> {
        let tokens = crate::parse::split(sql).unwrap().remove(0);
        lift(&tokens).map(|lifted| (lifted.text.trim().to_owned(), lifted.values))
    }

    fn text(sql: &str) -> String {
        lifted(sql).map(|(text, _)| text).unwrap_or_default()
    }

    #[test]
    fn constants_beside_columns_become_parameters() {
        let (text, values) =
            lifted("SELECT a, 5 FROM t WHERE id = 7 AND b >= -1.50 OR c <> 'x''y' ORDER BY 1")
                .unwrap();
        assert_eq!(text, "SELECT a , 5 FROM t WHERE id = $1 AND b >= $2 OR c <> $3 ORDER BY 1");
        let expected = [7.into(), Literal::Decimal(-150, 2), "x'y".into()];
        assert_eq!(values, expected);
        assert_eq!(
            self::text("UPDATE t SET a = 1, b = b + 2, c = 3 * c - 4000000000 WHERE id IN (5, 6)"),
            "UPDATE t SET a = $1 , b = b + CAST($2 AS integer) , c = CAST($3 AS integer) * c - \
             CAST($4 AS bigint) WHERE id IN ( $5 , $6 )"
        );
        assert_eq!(
            self::text("DELETE FROM t WHERE a BETWEEN 1 AND 2 AND b = -3"),
            "DELETE FROM t WHERE a BETWEEN $1 AND $2 AND b = $3"
        );
    }

    #[test]
    fn constants_elsewhere_stay() {
        for sql in [
            "SELECT 1",
            "SELECT a = 1 FROM t",
            "SELECT a FROM t ORDER BY 1 LIMIT 5",
            "SELECT a FROM t WHERE d = DATE '2024-01-01'",
            "SELECT a FROM t WHERE d = '2024-01-01'::date",
            "SELECT a FROM t WHERE d > now() - INTERVAL '1 day'",
            "SELECT a FROM t WHERE name LIKE 'x%'",
            "SELECT a FROM t WHERE x = 1e100",
            "INSERT INTO t VALUES (1)",
            "SELECT a FROM t WHERE id = $1 AND b = 5",
        ] {
            assert_eq!(lifted(sql), None, "{sql}");
        }
        let listed = |count| format!("SELECT a FROM t WHERE id IN (1{})", ", 1".repeat(count - 1));
        assert!(lifted(&listed(LIFTED_MAX)).is_some());
        assert_eq!(lifted(&listed(LIFTED_MAX + 1)), None);
        assert_eq!(
            text("SELECT a FROM t WHERE b = 2 AND EXISTS (SELECT 5 = 5 FROM u WHERE c = 3)"),
            "SELECT a FROM t WHERE b = $1 AND EXISTS ( SELECT 5 = 5 FROM u WHERE c = $2 )"
        );
    }
}
