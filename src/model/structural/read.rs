//! Writes what an object is read as from the text of what is stored: pruned, and with its defaults. Builds no tree, and is bounded: what would become too large
//! ends it.

use std::{borrow::Cow, ops::Range};

use go::json::string_into;

use super::{DefaultValue, Structural, cursor::Cursor};

/// Bytes that defaults may add to one object, as a tree of it would take them: 40,000 small items with a default of 5 KB would be 200 MB. etcd holds no object
/// of more than 1.5 MiB, with the defaults that it had when it was written.
pub const DEFAULTED_BYTES_MAX: usize = 8 << 20;
/// How deep values may be nested that a schema changes.
const DEPTH_MAX: usize = 200;

/// Why a text is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is no JSON, has spaces, or its members are not sorted.
    Irregular,
    /// Its defaults would add more than [`DEFAULTED_BYTES_MAX`].
    TooLarge,
}

/// Copies a part of the text that no schema changes.
type Copy<'c> = &'c mut dyn FnMut(Range<usize>, &mut Vec<u8>);

/// What a value's schema does to it.
#[derive(Clone, Copy)]
enum Mode<'s> {
    /// It is pruned, and gets its defaults.
    Known(&'s Structural),
    /// It is below what preserves unknown members.
    Kept(Option<&'s Structural>),
    /// It has no schema: its members go.
    Bare,
    /// It is a default, which gets the defaults inside of it.
    Default(&'s Structural),
}

impl<'s> Mode<'s> {
    fn schema(self) -> Option<&'s Structural> {
        match self {
            Self::Known(schema) | Self::Default(schema) => Some(schema),
            Self::Kept(schema) => schema,
            Self::Bare => None,
        }
    }

    fn of_items(self) -> Self {
        let items = |schema: &'s Structural| schema.items.as_deref();
        match self {
            Self::Known(schema) if schema.preserves => Self::Kept(items(schema)),
            Self::Known(schema) => items(schema).map_or(Self::Bare, Self::Known),
            Self::Kept(schema) => Self::Kept(schema.and_then(items)),
            Self::Bare => Self::Bare,
            Self::Default(schema) => items(schema).map_or(Self::Kept(None), Self::Default),
        }
    }

    /// Whether it leaves every value as it is.
    fn is_idle(self) -> bool {
        match self {
            Self::Kept(None) => true,
            Self::Default(schema) => !schema.fills,
            Self::Known(_) | Self::Kept(Some(_)) | Self::Bare => false,
        }
    }
}

impl Structural {
    /// Appends what a whole object is read as. What is appended when it fails is nothing.
    ///
    /// # Errors
    /// See [`Unread`].
    pub fn read_into(&self, text: &str, out: &mut Vec<u8>) -> Result<(), Unread> {
        let mut copy = |range: Range<usize>, out: &mut Vec<u8>| out.extend_from_slice(&text.as_bytes()[range]);
        self.whole(text, (true, true), &mut copy, out)
    }

    /// Appends what an object is read as whose first bracket and `apiVersion` are left out; its head is copied by `copy`, from a range of `tail`.
    pub(crate) fn read_tail_into(&self, tail: &str, copy: Copy<'_>, out: &mut Vec<u8>) -> Result<(), Unread> {
        self.whole(tail, (false, true), copy, out)
    }

    /// The same, pruned alone.
    pub(crate) fn prune_tail_into(&self, tail: &str, out: &mut Vec<u8>) -> Result<(), Unread> {
        let mut copy = |range: Range<usize>, out: &mut Vec<u8>| out.extend_from_slice(&tail.as_bytes()[range]);
        self.whole(tail, (false, false), &mut copy, out)
    }

    fn whole(&self, text: &str, (is_whole, sets): (bool, bool), copy: Copy<'_>, out: &mut Vec<u8>) -> Result<(), Unread> {
        let (start, mut cursor) = (out.len(), Cursor::new(text));
        let mut reading = Reading { copy: Some(copy), sets, out, added: 0, depth: 0 };
        let read = (|| {
            if is_whole {
                cursor.pass(b'{')?;
                reading.out.push(b'{');
            }
            reading.members(Mode::Known(self), &mut cursor)?;
            if cursor.is_at_end() { Ok(()) } else { Err(Unread::Irregular) }
        })();
        if read.is_err() {
            out.truncate(start);
        }
        read
    }
}

struct Reading<'c, 'o> {
    /// Copies the head of the object that is read; absent inside of it.
    copy: Option<Copy<'c>>,
    /// Whether defaults are set.
    sets: bool,
    out: &'o mut Vec<u8>,
    /// What defaults have added.
    added: usize,
    depth: usize,
}

impl Reading<'_, '_> {
    fn value(&mut self, mode: Mode<'_>, cursor: &mut Cursor<'_>) -> Result<(), Unread> {
        if mode.is_idle() {
            return self.copy_value(cursor);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Unread::Irregular);
        }
        if cursor.passes(b'{') {
            self.out.push(b'{');
            let copy = self.copy.take();
            self.members(mode, cursor)?;
            self.copy = copy;
        } else if cursor.passes(b'[') {
            self.out.push(b'[');
            self.items(mode.of_items(), cursor)?;
        } else {
            self.copy_value(cursor)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn copy_value(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unread> {
        let range = cursor.value()?;
        self.out.extend_from_slice(cursor.text(range)?.as_bytes());
        Ok(())
    }

    /// Writes the items of a list, of whose first bracket something is written, and its end.
    fn items(&mut self, mode: Mode<'_>, cursor: &mut Cursor<'_>) -> Result<(), Unread> {
        let default =
            mode.schema().filter(|schema| self.sets && !schema.nullable).and_then(|schema| Some((schema, schema.default.as_deref()?)));
        let mut is_first = true;
        while !cursor.passes(b']') {
            if !std::mem::take(&mut is_first) {
                cursor.pass(b',')?;
                self.out.push(b',');
            }
            match default {
                Some((schema, default)) if cursor.peek() == Some(b'n') => {
                    cursor.value()?;
                    self.default(schema, default)?;
                }
                _ => self.value(mode, cursor)?,
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// Writes the members of an object, of which the first bracket is written, and its end.
    fn members<'t>(&mut self, mode: Mode<'_>, cursor: &mut Cursor<'t>) -> Result<(), Unread> {
        let mut missing = mode.schema().filter(|_| self.sets).into_iter().flat_map(Structural::defaulted).peekable();
        let mut before: Option<Cow<'t, str>> = None;
        let (mut is_first, mut separates) = (true, false);
        while !cursor.passes(b'}') {
            let is_begin = std::mem::take(&mut is_first);
            if !is_begin {
                cursor.pass(b',')?;
            }
            let (written, name) = cursor.name()?;
            // In a whole object it leads, whatever comes before it in the alphabet.
            if !(is_begin && self.copy.is_some() && name == "apiVersion") {
                if before.as_deref().is_some_and(|before| before >= &*name) {
                    return Err(Unread::Irregular);
                }
                while let Some((name, schema, default)) = missing.next_if(|(missing, ..)| *missing < &*name) {
                    self.missing(name, schema, default, &mut separates)?;
                }
                missing.next_if(|(missing, ..)| *missing == &*name);
                before = Some(name.clone());
            }
            self.member(mode, (written, &name), cursor, &mut separates)?;
        }
        for (name, schema, default) in missing {
            self.missing(name, schema, default, &mut separates)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Writes a member, unless it goes.
    fn member(&mut self, mode: Mode<'_>, name: (&str, &str), cursor: &mut Cursor<'_>, separates: &mut bool) -> Result<(), Unread> {
        let (written, name) = name;
        let Some(schema) = mode.schema() else {
            // Without a schema no member is known.
            return cursor.value().map(drop);
        };
        let is_head = schema.is_head(name);
        let member = schema.member(name);
        let stays = is_head || member.is_some() || schema.preserves || !matches!(mode, Mode::Known(_));
        let default = match member {
            Some(Some(of_member)) if cursor.peek() == Some(b'n') && !of_member.nullable => match (of_member.default.as_deref(), mode) {
                (Some(default), _) if self.sets => Some((of_member, default)),
                (Some(_), _) | (None, Mode::Default(_)) => None,
                (None, _) => return cursor.value().map(drop),
            },
            _ => None,
        };
        if !stays {
            return cursor.value().map(drop);
        }
        self.separate(separates);
        self.out.extend_from_slice(written.as_bytes());
        self.out.push(b':');
        if let Some((schema, default)) = default {
            cursor.value()?;
            return self.default(schema, default);
        }
        match (member, mode) {
            (Some(Some(schema)), Mode::Default(_)) => self.value(Mode::Default(schema), cursor),
            (Some(Some(schema)), _) => self.value(Mode::Known(schema), cursor),
            (Some(None), Mode::Known(_) | Mode::Kept(_)) => self.value(Mode::Bare, cursor),
            _ => match &mut self.copy {
                Some(copy) if is_head => {
                    copy(cursor.value()?, self.out);
                    Ok(())
                }
                _ => self.copy_value(cursor),
            },
        }
    }

    /// Writes a member that is missing.
    fn missing(&mut self, name: &str, schema: &Structural, default: &DefaultValue, separates: &mut bool) -> Result<(), Unread> {
        self.separate(separates);
        string_into(name, self.out);
        self.out.push(b':');
        self.added += name.len();
        self.default(schema, default)
    }

    fn separate(&mut self, separates: &mut bool) {
        if std::mem::replace(separates, true) {
            self.out.push(b',');
        }
    }

    /// Writes a default of a schema.
    fn default(&mut self, schema: &Structural, default: &DefaultValue) -> Result<(), Unread> {
        self.added += default.cost;
        if self.added > DEFAULTED_BYTES_MAX {
            return Err(Unread::TooLarge);
        }
        if schema.fills {
            let copy = self.copy.take();
            self.value(Mode::Default(schema), &mut Cursor::new(&default.text))?;
            self.copy = copy;
        } else {
            self.out.extend_from_slice(default.text.as_bytes());
        }
        Ok(())
    }
}
