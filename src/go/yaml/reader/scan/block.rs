//! Scalars after `|` and `>`.

use super::{Kind, Scanner, text_of};

/// Which breaks stay at the end.
#[derive(PartialEq, Eq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl Scanner<'_> {
    pub(super) fn fetch_block_scalar(&mut self, is_literal: bool) -> Result<(), String> {
        self.forget_key()?;
        self.may_be_key = true;
        let start = self.at.spot;
        self.at.skip();
        let (chomp, increment) = self.block_header()?;
        if !self.at.skip_end_of_line()? {
            return self.wrong("did not find expected comment or line break");
        }
        let mut indent = if increment == 0 { 0 } else { usize::try_from(self.indent).unwrap_or(0) + increment };
        let mut trailing = Vec::new();
        self.block_breaks(&mut indent, &mut trailing)?;
        self.at.need(1)?;
        let (mut text, mut leading) = (Vec::new(), Vec::new());
        let mut was_blank = false;
        while self.at.spot.column == indent && !self.at.is_end() {
            let is_blank = self.at.is_blank(0);
            if !is_literal && !was_blank && !is_blank && leading.first() == Some(&b'\n') {
                if trailing.is_empty() {
                    text.push(b' ');
                }
            } else {
                text.append(&mut leading);
            }
            leading.clear();
            text.append(&mut trailing);
            was_blank = is_blank;
            while !self.at.is_break_or_end(0) {
                self.at.take(&mut text);
                self.at.need(1)?;
            }
            self.at.need(2)?;
            self.at.take_line(&mut leading);
            self.block_breaks(&mut indent, &mut trailing)?;
        }
        if chomp != Chomp::Strip {
            text.append(&mut leading);
        }
        if chomp == Chomp::Keep {
            text.append(&mut trailing);
        }
        self.push(Kind::Scalar { text: text_of(text), plain: false }, start);
        Ok(())
    }

    /// Reads `+`, `-` and a digit, in either order.
    fn block_header(&mut self) -> Result<(Chomp, usize), String> {
        self.at.need(1)?;
        if let Some(chomp) = self.block_chomp() {
            self.at.need(1)?;
            return Ok((chomp, self.block_increment()?));
        }
        let increment = self.block_increment()?;
        if increment == 0 {
            return Ok((Chomp::Clip, 0));
        }
        self.at.need(1)?;
        Ok((self.block_chomp().unwrap_or(Chomp::Clip), increment))
    }

    fn block_chomp(&mut self) -> Option<Chomp> {
        let chomp = match self.at.byte(0) {
            b'+' => Chomp::Keep,
            b'-' => Chomp::Strip,
            _ => return None,
        };
        self.at.skip();
        Some(chomp)
    }

    /// Returns how many columns further right the text is said to be; 0 when nothing is said.
    fn block_increment(&mut self) -> Result<usize, String> {
        match self.at.byte(0) {
            b'0' => self.wrong("found an indentation indicator equal to 0"),
            digit @ b'1'..=b'9' => {
                self.at.skip();
                Ok(usize::from(digit - b'0'))
            }
            _ => Ok(0),
        }
    }

    /// Takes empty lines and the indentation of the next one; finds out how deep the text is, if it is not known.
    fn block_breaks(&mut self, indent: &mut usize, breaks: &mut Vec<u8>) -> Result<(), String> {
        let mut deepest = 0;
        loop {
            self.at.need(1)?;
            while (*indent == 0 || self.at.spot.column < *indent) && self.at.is(b' ') {
                self.at.skip();
                self.at.need(1)?;
            }
            deepest = deepest.max(self.at.spot.column);
            if (*indent == 0 || self.at.spot.column < *indent) && self.at.is(b'\t') {
                return self.wrong("found a tab character where an indentation space is expected");
            }
            if !self.at.is_break(0) {
                break;
            }
            self.at.need(2)?;
            self.at.take_line(breaks);
        }
        if *indent == 0 {
            let least = usize::try_from(self.indent + 1).unwrap_or(0);
            *indent = deepest.max(least).max(1);
        }
        Ok(())
    }
}
