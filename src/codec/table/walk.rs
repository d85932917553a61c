//! What a JSONPath finds in an object, as client-go's `util/jsonpath` finds it with missing keys allowed.

use std::cmp::Ordering;

use super::{
    node::Node,
    path::{Slice, Step},
};

type Found<'n> = Vec<&'n Node<'n>>;

/// Values that a step may find: several `..` in one path multiply. kube-apiserver has no such limit; no cell needs more than the first.
const FOUND_MAX: usize = 100_000;

/// Why a walk ended. It has the values where it did, because a filter that only asks for existence takes them.
pub(super) struct Failed<'n>(Found<'n>);

/// Walks from a value along the steps. Members are visited sorted, which in Go is left to chance.
///
/// # Errors
/// A step that does not fit its value, as an index out of bounds, or that finds too much.
pub(super) fn walk<'n>(from: &'n Node<'n>, steps: &'n [Step]) -> Result<Found<'n>, Failed<'n>> {
    steps.iter().try_fold(vec![from], |found, step| one(found, step))
}

fn one<'n>(from: Found<'n>, step: &'n Step) -> Result<Found<'n>, Failed<'n>> {
    match step {
        Step::Field(name) => Ok(from.into_iter().filter_map(|node| member(node, name)).collect()),
        Step::Wildcard => Ok(from.into_iter().flat_map(children).collect()),
        Step::Slice(slice) => sliced(from, *slice),
        Step::Filter(left, operator, right) => filtered(from, left, operator, right),
        Step::Recursive => {
            let mut all = Vec::new();
            from.into_iter().for_each(|node| descend(node, &mut all));
            if all.len() < FOUND_MAX { Ok(all) } else { Err(Failed(all)) }
        }
        Step::Union(parts) => union(from, parts),
        // A text stands for itself once, the others once for each value.
        Step::Literal(text @ Node::Text(_)) => Ok(vec![text]),
        Step::Literal(literal) => Ok(from.iter().map(|_| literal).collect()),
        Step::Word => Err(Failed(from)),
    }
}

fn member<'n>(node: &'n Node<'n>, name: &str) -> Option<&'n Node<'n>> {
    node.members().iter().rev().find(|(known, _)| known == name).map(|(_, member)| member)
}

fn children<'n>(node: &'n Node<'n>) -> Found<'n> {
    match node {
        Node::Array(items) => items.iter().collect(),
        Node::Object(_) => node.sorted().into_iter().map(|(_, member)| member).collect(),
        _ => Vec::new(),
    }
}

/// The value and all in it that have something in them; a text has its characters.
fn descend<'n>(node: &'n Node<'n>, all: &mut Found<'n>) {
    if all.len() >= FOUND_MAX {
        return;
    }
    let inside = children(node);
    if !inside.is_empty() || !node.text().is_empty() {
        all.push(node);
        inside.into_iter().for_each(|node| descend(node, all));
    }
}

fn union<'n>(from: Found<'n>, parts: &'n [Vec<Step>]) -> Result<Found<'n>, Failed<'n>> {
    let mut all = Vec::new();
    for part in parts {
        match part.iter().try_fold(from.clone(), one) {
            Ok(found) => all.extend(found),
            Err(_) => return Err(Failed(from)),
        }
    }
    Ok(all)
}

fn sliced<'n>(from: Found<'n>, slice: Slice) -> Result<Found<'n>, Failed<'n>> {
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
            Some((start, end, step)) => all.extend(items[start..end].iter().step_by(step)),
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

fn filtered<'n>(from: Found<'n>, left: &'n [Step], operator: &str, right: &'n [Step]) -> Result<Found<'n>, Failed<'n>> {
    let mut all = Vec::new();
    for node in &from {
        let Node::Array(items) = node else { return Err(Failed(from)) };
        for item in items {
            match passes(item, left, operator, right) {
                Some(true) => all.push(item),
                Some(false) => {}
                None => return Err(Failed(from)),
            }
        }
    }
    Ok(all)
}

/// Whether an element passes; `None` when that cannot be told.
fn passes<'n>(item: &'n Node<'n>, left: &'n [Step], operator: &str, right: &'n [Step]) -> Option<bool> {
    let lefts = walk(item, left);
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
    match &walk(item, right).ok()?[..] {
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
            let told = walk(&object, &steps).map_or("failed".to_owned(), |found| {
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
        assert!(walk(&object, &steps).is_err());
    }
}
