//! What a JSONPath finds in an object, as client-go's `util/jsonpath` finds it with missing keys allowed.

use std::cmp::Ordering;

use super::{
    node::Node,
    path::{Slice, Step},
    work::Work,
};

type Found<'n> = Vec<&'n Node<'n>>;

/// Why a walk ended. It has the values where it did, because a filter that only asks for existence takes them.
pub(super) struct Failed<'n>(Found<'n>);

/// Walks from a value along the steps. Members are visited sorted, which in Go is left to chance. What it looks at is taken from `work`: several `..` in one
/// path multiply. kube-apiserver has no such limit; no cell needs more than the first value.
///
/// # Errors
/// A step that does not fit its value, as an index out of bounds, or that looks at too much.
pub(super) fn walk<'n>(from: &'n Node<'n>, steps: &'n [Step], work: &mut Work) -> Result<Found<'n>, Failed<'n>> {
    steps.iter().try_fold(vec![from], |found, step| one(found, step, work))
}

fn one<'n>(from: Found<'n>, step: &'n Step, work: &mut Work) -> Result<Found<'n>, Failed<'n>> {
    if work.take(1 + from.len()).is_none() {
        return Err(Failed(from));
    }
    match step {
        Step::Field(name) => within(from, |from| {
            let mut all = Vec::new();
            for node in from {
                all.extend(member(node, name, work)?);
            }
            Some(all)
        }),
        Step::Wildcard => within(from, |from| {
            let mut all = Vec::new();
            for node in from {
                all.extend(children(node, work)?);
            }
            Some(all)
        }),
        Step::Slice(slice) => sliced(from, *slice, work),
        Step::Filter(left, operator, right) => filtered(from, left, operator, right, work),
        Step::Recursive => within(from, |from| {
            let mut all = Vec::new();
            from.iter().try_for_each(|node| descend(node, &mut all, work))?;
            Some(all)
        }),
        Step::Union(parts) => union(from, parts, work),
        // A text stands for itself once, the others once for each value.
        Step::Literal(text @ Node::Text(_)) => Ok(vec![text]),
        Step::Literal(literal) => Ok(from.iter().map(|_| literal).collect()),
        Step::Word => Err(Failed(from)),
    }
}

/// What is found in values, unless that takes too much.
fn within<'n>(from: Found<'n>, find: impl FnOnce(&Found<'n>) -> Option<Found<'n>>) -> Result<Found<'n>, Failed<'n>> {
    find(&from).ok_or(Failed(from))
}

/// The outer nothing: there is too much to look at.
fn member<'n>(node: &'n Node<'n>, name: &str, work: &mut Work) -> Option<Option<&'n Node<'n>>> {
    /// Names that are compared in the time of a value.
    const NAMES: usize = 8;
    let members = node.members();
    work.take(members.len() / NAMES)?;
    Some(members.iter().rev().find(|(known, _)| known == name).map(|(_, member)| member))
}

fn children<'n>(node: &'n Node<'n>, work: &mut Work) -> Option<Found<'n>> {
    /// Members are sorted.
    const MEMBER: usize = 4;
    match node {
        Node::Array(items) => {
            work.take(items.len())?;
            Some(items.iter().collect())
        }
        Node::Object(members) => {
            work.take(members.len() * MEMBER)?;
            Some(node.sorted().into_iter().map(|(_, member)| member).collect())
        }
        _ => Some(Vec::new()),
    }
}

/// The value and all in it that have something in them; a text has its characters.
fn descend<'n>(node: &'n Node<'n>, all: &mut Found<'n>, work: &mut Work) -> Option<()> {
    let inside = children(node, work)?;
    if !inside.is_empty() || !node.text().is_empty() {
        work.take(1)?;
        all.push(node);
        inside.into_iter().try_for_each(|node| descend(node, all, work))?;
    }
    Some(())
}

fn union<'n>(from: Found<'n>, parts: &'n [Vec<Step>], work: &mut Work) -> Result<Found<'n>, Failed<'n>> {
    let mut all = Vec::new();
    for part in parts {
        match part.iter().try_fold(from.clone(), |found, step| one(found, step, work)) {
            Ok(found) if work.take(1 + found.len()).is_some() => all.extend(found),
            _ => return Err(Failed(from)),
        }
    }
    Ok(all)
}

fn sliced<'n>(from: Found<'n>, slice: Slice, work: &mut Work) -> Result<Found<'n>, Failed<'n>> {
    let mut all = Vec::new();
    for node in &from {
        let items = match node {
            Node::Null => continue,
            Node::Array(items) => items,
            _ => return Err(Failed(from)),
        };
        match bounds(slice, items.len()) {
            None => return Err(Failed(from)),
            // Nothing asked: what was found in the values before is all.
            Some((start, end, _)) if start == end => return Ok(all),
            Some((start, end, step)) if work.take((end - start) / step).is_some() => all.extend(items[start..end].iter().step_by(step)),
            Some(_) => return Err(Failed(from)),
        }
    }
    Ok(all)
}

/// Start, end and step for a length; `None` out of bounds.
fn bounds(slice: Slice, length: usize) -> Option<(usize, usize, usize)> {
    let signed = i64::try_from(length).ok()?;
    let start = slice.start.unwrap_or(0);
    let start = if start < 0 { start + signed } else { start };
    let end = slice.end.unwrap_or(signed);
    let end = if end < 0 || end == 0 && slice.single { end + signed } else { end };
    if start == end {
        return Some((0, 0, 1));
    }
    let step = usize::try_from(slice.step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    let fits = (0..signed).contains(&start) && (0..=signed).contains(&end) && start < end;
    fits.then_some((usize::try_from(start).ok()?, usize::try_from(end).ok()?, step))
}

fn filtered<'n>(from: Found<'n>, left: &'n [Step], operator: &str, right: &'n [Step], work: &mut Work) -> Result<Found<'n>, Failed<'n>> {
    let mut all = Vec::new();
    for node in &from {
        let Node::Array(items) = node else { return Err(Failed(from)) };
        for item in items {
            match passes(item, left, operator, right, work) {
                Some(true) => all.push(item),
                Some(false) => {}
                None => return Err(Failed(from)),
            }
        }
    }
    Ok(all)
}

/// Whether an element passes; `None` when that cannot be told.
fn passes<'n>(item: &'n Node<'n>, left: &'n [Step], operator: &str, right: &'n [Step], work: &mut Work) -> Option<bool> {
    work.take(1)?;
    let lefts = walk(item, left, work);
    if work.is_over() {
        return None;
    }
    if operator == "exists" {
        let (Ok(found) | Err(Failed(found))) = lefts;
        return Some(!found.is_empty());
    }
    let lefts = lefts.ok()?;
    let left = match &lefts[..] {
        [] => return Some(false),
        [left] => *left,
        _ => return None,
    };
    match &walk(item, right, work).ok()?[..] {
        [] => Some(false),
        [right] => compare(left, operator, right),
        _ => None,
    }
}

fn compare(left: &Node<'_>, operator: &str, right: &Node<'_>) -> Option<bool> {
    let ordering = match (left, right) {
        (Node::Bool(left), Node::Bool(right)) if matches!(operator, "==" | "!=") => Some(left.cmp(right)),
        (Node::Int(left), Node::Int(right)) => Some(left.cmp(right)),
        (Node::Float(left), Node::Float(right)) => left.partial_cmp(right),
        (Node::Text(left), Node::Text(right)) => Some(left.cmp(right)),
        _ => return None,
    };
    Some(match operator {
        "==" => ordering == Some(Ordering::Equal),
        "!=" => ordering != Some(Ordering::Equal),
        "<" => ordering == Some(Ordering::Less),
        "<=" => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        ">" => ordering == Some(Ordering::Greater),
        ">=" => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{node::Want, path::parse};

    const OBJECT: &str = r#"{"a":[{"n":1,"t":"x"},{"n":2,"t":"y"},{"n":3}],"m":{"z":1,"b":{"n":9}},"nil":null,"s":"text","f":[]}"#;

    #[test]
    fn values_are_found() {
        let object = Node::read(OBJECT.as_bytes(), &Want::whole()).expect("JSON");
        let check = |path: &str, expect: &str| {
            let steps = parse(path).expect("a path");
            let told = walk(&object, &steps, &mut Work::new(None)).map_or("failed".to_owned(), |found| {
                let mut out = Vec::new();
                Node::Array(found.into_iter().cloned().collect()).json_into(&mut out);
                String::from_utf8(out).expect("UTF-8")
            });
            assert_eq!(told, expect, "{path}");
        };
        check(".a[0].n", "[1]");
        check(".a[-1].n", "[3]");
        check(".a[3].n", "failed");
        check(".a[*].n", "[1,2,3]");
        check(".a[0:2].t", r#"["x","y"]"#);
        check(".a[::2].n", "[1,3]");
        check(".a[1:1].n", "[]");
        check(".f[*]", "[]");
        check(".f[0]", "failed");
        check(".nil[0]", "[]");
        check(".s[0]", "failed");
        check(".nil", "[null]");
        check(".missing.more", "[]");
        check(".m.*", r#"[{"n":9},1]"#);
        check("..n", "[1,2,3,9]");
        check(".a[0,2].n", "[1,3]");
        check(r#".a[?(@.t=="y")].n"#, "[2]");
        check(".a[?(@.t)].n", "[1,2]");
        check(".a[?(@.n >= 2)].n", "[2,3]");
        check(".a[?(@.n != 2)].n", "[1,3]");
        check(".a[?(@.n == 'x')].n", "failed");
        check(".s[?(@.n == 1)]", "failed");
        check(".a[?(@.t[0])].n", "[1,2]");
        check(".m range", "failed");
    }

    #[test]
    fn what_multiplies_ends() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(60), "]}".repeat(60));
        let object = Node::read(deep.as_bytes(), &Want::whole()).expect("JSON");
        let steps = parse("..a..a..a..a..a..a..a..a").expect("a path");
        assert!(walk(&object, &steps, &mut Work::new(None)).is_err());
    }
}
