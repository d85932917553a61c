//! Scalars in quotes, and plain ones.

use super::{Kind, Scanner, as_column, text_of};

/// White space inside of a scalar, before it is known what follows.
#[derive(Default)]
struct White {
    blanks: Vec<u8>,
    /// The first break, and those after it.
    first: Vec<u8>,
    others: Vec<u8>,
    has_break: bool,
}

impl White {
    /// Adds it to the text: breaks fold to a space or lose their first one, unless that is LS, PS or escaped.
    fn fold(&mut self, text: &mut Vec<u8>) {
        if self.has_break {
            if self.first.first() != Some(&b'\n') {
                text.append(&mut self.first);
                text.append(&mut self.others);
            } else if self.others.is_empty() {
                text.push(b' ');
            } else {
                text.append(&mut self.others);
            }
        } else {
            text.append(&mut self.blanks);
        }
        *self = Self::default();
    }

    fn is_empty(&self) -> bool {
        self.blanks.is_empty() && !self.has_break
    }
}

impl Scanner<'_> {
    fn begin_scalar(&mut self) -> Result<(), String> {
        self.save_key()?;
        self.may_be_key = false;
        Ok(())
    }

    fn is_any_document_indicator(&self) -> bool {
        self.at.is_document_indicator(b'-') || self.at.is_document_indicator(b'.')
    }

    pub(super) fn fetch_quoted(&mut self, is_single: bool) -> Result<(), String> {
        self.begin_scalar()?;
        let start = self.at.spot;
        let quote = if is_single { b'\'' } else { b'"' };
        self.at.skip();
        let mut text = Vec::new();
        loop {
            self.at.need(4)?;
            if self.is_any_document_indicator() {
                return self.wrong("found unexpected document indicator");
            }
            if self.at.is_end() {
                return self.wrong("found unexpected end of stream");
            }
            let mut white = White { has_break: self.quoted_word(quote, &mut text)?, ..White::default() };
            self.at.need(1)?;
            if self.at.is(quote) {
                break;
            }
            self.white(&mut white, None)?;
            white.fold(&mut text);
        }
        self.at.skip();
        self.push(Kind::Scalar { text: text_of(text), plain: false }, start);
        Ok(())
    }

    /// Takes what stands before the next white space or the end; returns whether it ended with an escaped break.
    fn quoted_word(&mut self, quote: u8, text: &mut Vec<u8>) -> Result<bool, String> {
        while !self.at.is_gap(0) {
            let byte = self.at.byte(0);
            if quote == b'\'' && byte == quote && self.at.byte(1) == quote {
                text.push(quote);
                self.at.skip_many(2);
            } else if byte == quote {
                break;
            } else if quote == b'"' && byte == b'\\' && self.at.is_break(1) {
                self.at.need(3)?;
                self.at.skip();
                self.at.skip_line();
                return Ok(true);
            } else if quote == b'"' && byte == b'\\' {
                self.escape(text)?;
            } else {
                self.at.take(text);
            }
            self.at.need(2)?;
        }
        Ok(false)
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        let digits = match self.at.byte(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            letter => {
                let Some(meant) = meant(letter) else { return self.wrong("found unknown escape character") };
                text.extend_from_slice(meant.as_bytes());
                0
            }
        };
        self.at.skip_many(2);
        if digits == 0 {
            return Ok(());
        }
        self.at.need(digits)?;
        let mut value = 0_u32;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.at.byte(ahead)).to_digit(16) else {
                return self.wrong("did not find expected hexdecimal number");
            };
            value = (value << 4) + digit;
        }
        let Some(character) = char::from_u32(value) else { return self.wrong("found invalid Unicode character escape code") };
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at.skip_many(digits);
        Ok(())
    }

    /// Takes blanks and breaks. `indent` is the column that tabs may not stand before.
    fn white(&mut self, white: &mut White, indent: Option<isize>) -> Result<(), String> {
        self.at.need(1)?;
        while self.at.is_blank(0) || self.at.is_break(0) {
            if self.at.is_break(0) {
                self.at.need(2)?;
                white.blanks.clear();
                let into = if white.has_break { &mut white.others } else { &mut white.first };
                self.at.take_line(into);
                white.has_break = true;
            } else {
                let is_left = indent.is_some_and(|indent| white.has_break && as_column(self.at.spot.column) < indent);
                if is_left && self.at.is(b'\t') {
                    return self.wrong("found a tab character that violates indentation");
                }
                if white.has_break {
                    self.at.skip();
                } else {
                    self.at.take(&mut white.blanks);
                }
            }
            self.at.need(1)?;
        }
        Ok(())
    }

    pub(super) fn fetch_plain(&mut self) -> Result<(), String> {
        self.begin_scalar()?;
        let (start, indent) = (self.at.spot, self.indent + 1);
        let mut end = start;
        let (mut text, mut white) = (Vec::new(), White::default());
        loop {
            self.at.need(4)?;
            if self.is_any_document_indicator() || self.at.is(b'#') {
                break;
            }
            while !self.at.is_gap(0) && !self.ends_plain() {
                if !white.is_empty() {
                    white.fold(&mut text);
                }
                self.at.take(&mut text);
                end = self.at.spot;
                self.at.need(2)?;
            }
            if !self.at.is_blank(0) && !self.at.is_break(0) {
                break;
            }
            self.white(&mut white, Some(indent))?;
            if !self.in_brackets() && as_column(self.at.spot.column) < indent {
                break;
            }
        }
        self.tokens.push_back(super::Token { kind: Kind::Scalar { text: text_of(text), plain: true }, start, end });
        if white.has_break {
            self.may_be_key = true;
        }
        Ok(())
    }

    /// Whether an indicator stands here that a plain scalar ends before.
    fn ends_plain(&self) -> bool {
        match self.at.byte(0) {
            b':' => self.at.is_gap(1),
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => self.in_brackets(),
            _ => false,
        }
    }
}

/// What a letter after a backslash stands for.
fn meant(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'0' => "\0",
        b'a' => "\x07",
        b'b' => "\x08",
        b't' | b'\t' => "\t",
        b'n' => "\n",
        b'v' => "\x0b",
        b'f' => "\x0c",
        b'r' => "\r",
        b'e' => "\x1b",
        b' ' => " ",
        b'"' => "\"",
        b'\'' => "'",
        b'\\' => "\\",
        b'N' => "\u{85}",
        b'_' => "\u{a0}",
        b'L' => "\u{2028}",
        b'P' => "\u{2029}",
        _ => return None,
    })
}
