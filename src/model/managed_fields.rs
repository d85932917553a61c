//! The text of `metadata.managedFields`, cut into what many objects have alike, which is there once, and what each has of its own: times, addresses, uids.
//!
//! It is half of many objects. All Pods of a workload have the same fields set by the same managers, and so have all Nodes, Leases, Events of a sort.

use std::{
    borrow::Cow,
    convert::Infallible,
    ops::Range,
    sync::{Arc, LazyLock},
};

use intern::{Interned, Interner};

/// From so many bytes on a text is cut: what holds a template costs some 150.
const CUT_BYTES_MIN: usize = 256;

/// What stands before a text that differs, up to its colon; and where that text ends. A key of a list is JSON in a JSON string: its quotes are escaped.
const HOLES: [(&[u8], &[u8], u8); 3] =
    [(br#""time":"#, br#"""#, b'"'), (br#"{\"ip\":"#, br#"\""#, b'\\'), (br#"{\"uid\":"#, br#"\""#, b'\\')];

static TEMPLATES: LazyLock<Arc<Interner<Template>>> = LazyLock::new(Arc::default);

/// What many texts have alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Template {
    text: Box<[u8]>,
    /// Where in the text something of an object's own stands. Ascending.
    holes: Box<[u32]>,
}

/// A template, as all objects hold it that have it.
pub(crate) type Shared = Interned<Template>;

/// A text that is cut.
#[derive(Debug)]
pub struct ManagedFields {
    pub(crate) template: Shared,
    /// How long each own part is, a byte each; then the own parts.
    pub(crate) own: Vec<u8>,
}

impl ManagedFields {
    /// Cuts the elements of the list; `None` of a short one.
    #[must_use]
    pub fn cut(text: &[u8]) -> Option<Self> {
        if text.len() < CUT_BYTES_MIN || u32::try_from(text.len()).is_err() {
            return None;
        }
        let (mut alike, mut holes) = (Vec::with_capacity(text.len()), Vec::new());
        let (mut own, mut parts) = (Vec::new(), Vec::new());
        let mut copied = 0;
        for colon in memchr::memchr_iter(b':', text) {
            let Some(part) = hole(text, colon).filter(|part| part.start >= copied) else { continue };
            alike.extend_from_slice(&text[copied..part.start]);
            holes.push(u32::try_from(alike.len()).ok()?);
            own.push(u8::try_from(part.len()).ok()?);
            parts.extend_from_slice(&text[part.clone()]);
            copied = part.end;
        }
        alike.extend_from_slice(&text[copied..]);
        own.extend_from_slice(&parts);
        let template = Template { text: alike.into(), holes: holes.into() };
        let Ok(template) = TEMPLATES.intern(Cow::Owned(template), |_| Ok::<_, Infallible>(None));
        Some(Self { template, own })
    }
}

/// Returns where something of an object's own stands that begins after a colon.
fn hole(text: &[u8], colon: usize) -> Option<Range<usize>> {
    let (before, after) = text.split_at(colon + 1);
    let (_, quote, end) = HOLES.iter().find(|(name, ..)| before.ends_with(name))?;
    let start = colon + 1 + after.strip_prefix(*quote).map(|_| quote.len())?;
    let len = memchr::memchr(*end, &text[start..]).filter(|len| *len <= usize::from(u8::MAX))?;
    Some(start..start + len)
}

impl Template {
    /// Returns how many bytes the whole text has, by an object's own parts; more may follow them.
    pub(crate) fn whole_len(&self, own: &[u8]) -> usize {
        self.text.len() + own.iter().take(self.holes.len()).map(|len| usize::from(*len)).sum::<usize>()
    }

    /// Appends the whole text.
    pub(crate) fn whole_into(&self, own: &[u8], out: &mut Vec<u8>) {
        let (lens, mut parts) = own.split_at_checked(self.holes.len()).unwrap_or_default();
        let mut at = 0;
        for (hole, len) in self.holes.iter().zip(lens) {
            let part;
            (part, parts) = parts.split_at_checked(usize::from(*len)).unwrap_or_default();
            append::append(self.text.get(at..*hole as usize).unwrap_or_default(), out);
            out.extend_from_slice(part);
            at = *hole as usize;
        }
        append::append(self.text.get(at..).unwrap_or_default(), out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(cut: &ManagedFields) -> Vec<u8> {
        let mut out = Vec::new();
        cut.template.whole_into(&cut.own, &mut out);
        assert_eq!(out.len(), cut.template.whole_len(&cut.own));
        out
    }

    fn of_pod(time: &str, ip: &str, uid: &str) -> String {
        let owner = format!(r#""f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{uid}\"}}":{{}}}}"#);
        let status =
            format!(r#"{{"f:status":{{"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"{ip}\"}}":{{".":{{}},"f:ip":{{}}}}}}}}}}"#);
        format!(
            r#"{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{{owner}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{status},"subresource":"status"}}"#
        )
    }

    #[test]
    fn pods_that_differ_in_times_addresses_and_uids_share_the_rest() {
        let texts = [of_pod("2026-11-26T12:00:00Z", "10.0.0.1", "aaaa-1"), of_pod("2026-11-26T12:00:01Z", "10.100.200.17", "b")];
        let [first, second] = texts.each_ref().map(|text| ManagedFields::cut(text.as_bytes()).expect("long enough"));
        assert!(std::ptr::eq(&*first.template, &*second.template));
        assert!(first.own.len() < 70, "{}", first.own.len());
        assert_eq!([whole(&first), whole(&second)], texts.map(String::into_bytes));
        assert!(ManagedFields::cut(&vec![b' '; CUT_BYTES_MIN - 1]).is_none());
    }

    proptest! {
        /// Whatever stands there, and where it stops.
        #[test]
        fn a_cut_text_is_put_together_again(parts in prop::collection::vec(prop_oneof![
            Just(r#""time":"2026-11-26T12:00:00Z""#.to_owned()), Just(r#""time":""#.to_owned()), Just(r#""f:time":"x""#.to_owned()),
            Just(r#"k:{\"ip\":\"10.0.0.1\"}"#.to_owned()), Just(r#"{\"uid\":\""#.to_owned()), Just(r#"{\"uid\":\"\\\"x\"}"#.to_owned()),
            Just("é:".to_owned()), Just("x".repeat(300)), "[:\"\\\\{}a]{0,9}",
        ], 0..12), ends in 0_usize..9) {
            let mut text = format!("{}{}", "y".repeat(CUT_BYTES_MIN), parts.concat()).into_bytes();
            text.truncate(text.len().saturating_sub(ends).max(CUT_BYTES_MIN));
            prop_assert_eq!(whole(&ManagedFields::cut(&text).expect("long enough")), text);
        }
    }
}
