//! Patterns of moments: the words that `to_char`, `to_date` and `to_timestamp` know.

/// What a word of a pattern stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Word {
    Era,
    Half,
    Century,
    DayName,
    DayShort,
    DayOfYear,
    Day,
    DayOfWeek,
    Fraction(u8),
    Hour24,
    Hour12,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    /// The last digits of the year of ISO weeks.
    IsoYear(u8),
    Julian,
    Minute,
    Month,
    MonthName,
    MonthShort,
    Milli,
    Micro,
    Quarter,
    RomanMonth,
    SecondOfDay,
    Second,
    WeekOfYear,
    WeekOfMonth,
    YearWithComma,
    /// The last digits of the year.
    Year(u8),
    Zone,
}

/// How a name is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Letters {
    Upper,
    Title,
    Lower,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// A word, without blanks and zeros if it `is_filled` (`FM`), and perhaps with the ending of an
    /// ordinal number.
    Word { word: Word, letters: Letters, has_points: bool, is_filled: bool, ending: Option<bool> },
    /// Any other letter.
    Letter(char),
}

/// The words, the longest first where one begins like another.
const WORDS: &[(&str, Word)] = &[
    ("A.D.", Word::Era),
    ("B.C.", Word::Era),
    ("A.M.", Word::Half),
    ("P.M.", Word::Half),
    ("AD", Word::Era),
    ("BC", Word::Era),
    ("AM", Word::Half),
    ("PM", Word::Half),
    ("CC", Word::Century),
    ("DAY", Word::DayName),
    ("DDD", Word::DayOfYear),
    ("DD", Word::Day),
    ("DY", Word::DayShort),
    ("D", Word::DayOfWeek),
    ("FF1", Word::Fraction(1)),
    ("FF2", Word::Fraction(2)),
    ("FF3", Word::Fraction(3)),
    ("FF4", Word::Fraction(4)),
    ("FF5", Word::Fraction(5)),
    ("FF6", Word::Fraction(6)),
    ("HH24", Word::Hour24),
    ("HH12", Word::Hour12),
    ("HH", Word::Hour12),
    ("IDDD", Word::IsoDayOfYear),
    ("ID", Word::IsoDayOfWeek),
    ("IW", Word::IsoWeek),
    ("IYYY", Word::IsoYear(4)),
    ("IYY", Word::IsoYear(3)),
    ("IY", Word::IsoYear(2)),
    ("I", Word::IsoYear(1)),
    ("J", Word::Julian),
    ("MI", Word::Minute),
    ("MM", Word::Month),
    ("MONTH", Word::MonthName),
    ("MON", Word::MonthShort),
    ("MS", Word::Milli),
    ("OF", Word::Zone),
    ("Q", Word::Quarter),
    ("RM", Word::RomanMonth),
    ("SSSSS", Word::SecondOfDay),
    ("SSSS", Word::SecondOfDay),
    ("SS", Word::Second),
    ("TZH", Word::Zone),
    ("TZM", Word::Zone),
    ("TZ", Word::Zone),
    ("US", Word::Micro),
    ("WW", Word::WeekOfYear),
    ("W", Word::WeekOfMonth),
    ("Y,YYY", Word::YearWithComma),
    ("YYYY", Word::Year(4)),
    ("YYY", Word::Year(3)),
    ("YY", Word::Year(2)),
    ("Y", Word::Year(1)),
];

/// The words that are names.
const TITLED: [&str; 4] = ["DAY", "DY", "MONTH", "MON"];

/// The parts of a pattern.
pub(super) fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    // In capitals or small letters, and names also with one capital.
    let begins = |rest: &str, word: &str| {
        rest.get(..word.len()).is_some_and(|begin| {
            let is_title = || {
                let small = word[1..].to_lowercase();
                TITLED.contains(&word) && begin[..1] == word[..1] && begin[1..] == small
            };
            begin == word || begin == word.to_lowercase() || is_title()
        })
    };
    while let Some(letter) = rest.chars().next() {
        if letter == '"' {
            let mut inner = rest[1..].char_indices();
            let mut end = rest.len();
            while let Some((at, quoted)) = inner.next() {
                match quoted {
                    '"' => {
                        end = at + 2;
                        break;
                    }
                    '\\' => parts.extend(inner.next().map(|(_, escaped)| Part::Letter(escaped))),
                    other => parts.push(Part::Letter(other)),
                }
            }
            rest = rest.get(end..).unwrap_or("");
            continue;
        }
        let mut behind = rest;
        let (mut is_filled, mut has_prefix) = (false, true);
        while has_prefix {
            has_prefix = false;
            for prefix in ["FM", "FX", "TM"] {
                if begins(behind, prefix) {
                    is_filled |= prefix != "FX";
                    behind = &behind[prefix.len()..];
                    has_prefix = true;
                }
            }
        }
        let Some((word, meaning)) = WORDS.iter().find(|(word, _)| begins(behind, word)) else {
            if behind.len() < rest.len() {
                rest = behind;
                continue;
            }
            rest = &rest[letter.len_utf8()..];
            if letter == '\\' && rest.starts_with('"') {
                parts.push(Part::Letter('"'));
                rest = &rest[1..];
            } else {
                parts.push(Part::Letter(letter));
            }
            continue;
        };
        let written = &behind[..word.len()];
        let mut letters = written.chars().filter(char::is_ascii_alphabetic);
        let cases = [letters.next(), letters.next()].map(|c| c.is_some_and(char::is_uppercase));
        let letters = match cases {
            [true, true] => Letters::Upper,
            [true, false] => Letters::Title,
            _ => Letters::Lower,
        };
        rest = &behind[word.len()..];
        let ending = begins(rest, "TH").then(|| rest.starts_with('T'));
        if ending.is_some() || begins(rest, "SP") {
            rest = &rest[2..];
        }
        let has_points = word.contains('.');
        parts.push(Part::Word { word: *meaning, letters, has_points, is_filled, ending });
    }
    parts
}

pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
