//! A stored value that is not read without loss is reported: by name in cases, and of any message when a part of the schema is taken away.

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    ProtoError, UnknownFields,
    decode::{Fields, members_into},
    field_into, message, open,
    schema::{SCHEMA, Schema},
    tests::Maker,
    wire::varint_into,
};

/// Of a hundred fields, and of a hundred messages, how many are taken away.
const TAKEN: u32 = 10;

fn unknown_fields(kind: (&str, &str), raw: &[u8]) -> Result<UnknownFields, ProtoError> {
    message(kind.0, kind.1).expect("a kind").stored_to_json(raw, &mut Vec::new())
}

/// A field inside of others, the outermost first.
fn inside(numbers: &[u32], value: &[u8]) -> Vec<u8> {
    numbers.iter().rev().fold(value.to_vec(), |inner, number| {
        let mut out = Vec::new();
        field_into(*number, &inner, &mut out);
        out
    })
}

fn varint(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint_into(u64::from(number) << 3, &mut out);
    varint_into(value, &mut out);
    out
}

#[test]
fn every_place_is_told() {
    let hpa = ("autoscaling/v2", "HorizontalPodAutoscaler");
    let pod = ("v1", "Pod");
    for (kind, raw, place) in [
        (hpa, varint(99, 1), "#99"),
        (hpa, inside(&[3, 6], &varint(8, 1)), "status.conditions[].#8"),
        (hpa, inside(&[1, 17], &varint(99, 1)), "metadata.managedFields[].#99"),
        // Of a time, of a quantity, of a number or string, of an entry, of JSON.
        (hpa, inside(&[1, 8], &varint(3, 1)), "metadata.creationTimestamp.#3"),
        (pod, inside(&[2, 2, 8, 1], &inside(&[2], &varint(2, 1))), "spec.containers[].resources.limits{}.#2"),
        (pod, inside(&[2, 2, 8, 1], &varint(3, 1)), "spec.containers[].resources.limits{}.#3"),
        (pod, inside(&[2, 2, 10, 1, 2, 2], &varint(4, 1)), "spec.containers[].livenessProbe.httpGet.port.#4"),
        (("apps/v1", "ControllerRevision"), inside(&[2], &varint(2, 1)), "data.#2"),
        (pod, inside(&[1, 12], &varint(3, 1)), "metadata.annotations{}.#3"),
        // What stands in the object around it has no name of its own.
        (pod, inside(&[2, 1, 2], &varint(250, 1)), "spec.volumes[].#250"),
        // A number that is too long for its type, and a flag that is more than one.
        (("apps/v1", "Deployment"), inside(&[2], &varint(1, 1 << 40)), "spec.replicas"),
        (pod, inside(&[2], &varint(11, 2)), "spec.hostNetwork"),
    ] {
        let told = unknown_fields(kind, &raw).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(told.to_string(), place);
    }
    assert!(unknown_fields(hpa, &inside(&[3, 6], &varint(6, 1))).expect("of 1.37").is_empty());
}

#[test]
fn a_few_places_are_told_once_each() {
    let many: Vec<u8> = (100..120).chain(100..120).flat_map(|number| varint(number, 1)).collect();
    let told = unknown_fields(("v1", "Pod"), &many).expect("a pod").to_string();
    assert_eq!(told, "#100, #101, #102, #103, #104, #105, #106, #107 and 32 more");
    let twice = inside(&[2], &inside(&[2], &varint(99, 1)).repeat(3));
    assert_eq!(unknown_fields(("v1", "Pod"), &twice).expect("a pod").to_string(), "spec.containers[].#99");
}

#[test]
fn the_envelope_is_read_whole() {
    let mut value = b"k8s\0".to_vec();
    value.extend(inside(&[1], &[inside(&[1], b"v1"), inside(&[2], b"Pod")].concat()));
    assert!(!open(&value).expect("an envelope").says_more);
    let of_type = [b"k8s\0".to_vec(), inside(&[1], &varint(3, 1))].concat();
    assert!(open(&of_type).expect("an envelope").says_more);
    value.extend(varint(5, 1));
    assert!(open(&value).expect("an envelope").says_more);
}

/// What a client sends is read as an API server of our minor reads it.
#[test]
fn a_body_has_the_fields_of_our_minor() {
    let raw = inside(&[3, 6], &varint(6, 7));
    let (mut body, mut stored) = (Vec::new(), Vec::new());
    let of = message("autoscaling/v2", "HorizontalPodAutoscaler").expect("a kind");
    of.to_json(&raw, usize::MAX, &mut body).expect("JSON");
    of.stored_to_json(&raw, &mut stored).expect("JSON");
    assert!(!String::from_utf8_lossy(&body).contains("observedGeneration\":7"), "{}", body.escape_ascii());
    assert!(String::from_utf8_lossy(&stored).contains("observedGeneration\":7"), "{}", stored.escape_ascii());
}

/// The schema without some of its fields and messages: a release that does not know them.
fn thinned(random: &mut StdRng) -> (&'static Schema, usize) {
    let text = include_str!("schema.txt");
    let mut takes = || random.random_range(0..100) < TAKEN;
    let (mut gone, mut package) = (Vec::new(), "");
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["package", name] => package = name,
            // Those with a form of their own are read without their fields' names.
            ["message", name, ref more @ ..] if more.first() != Some(&"=") && takes() => gone.push(format!(".{package}.{name}")),
            _ => {}
        }
    }
    let (mut kept, mut taken, mut is_object) = (String::new(), 0, false);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["package", name] => package = name,
            ["message", _, ref more @ ..] => is_object = more.first() != Some(&"="),
            ["", ..] => {
                let shape = words.iter().skip(2).find(|word| !word.starts_with('"')).map_or(words[words.len() - 1], |word| word);
                let shape = shape.trim_start_matches(['*', '[', ']', '{', '}']);
                let full = if shape.starts_with('.') { shape.to_owned() } else { format!(".{package}.{shape}") };
                // Whose message is gone, that field is gone. A list of a kind is made of it.
                if is_object && (gone.contains(&full) || takes()) {
                    taken += 1;
                    continue;
                }
            }
            _ => {}
        }
        kept += line;
        kept.push('\n');
    }
    (Box::leak(Box::new(Schema::parse(String::leak(kept)))), taken)
}

/// Nothing is lost in silence: the JSON is the same that the whole schema makes, or what is not in it is reported.
#[test]
fn a_release_that_knows_less_says_so() {
    let (mut told, mut whole) = (0, 0);
    for seed in 0..3 {
        let mut random = StdRng::seed_from_u64(seed);
        let (thin, taken) = thinned(&mut random);
        assert!(taken > 300, "{taken}");
        for kind in &SCHEMA.kinds {
            let Some(at) = thin.kind(kind.api_version, kind.kind) else { continue };
            for fullness in [3, 20, 60] {
                let mut maker = Maker { random: StdRng::seed_from_u64(random.random()), fullness, budget: 400, is_go: true };
                let raw = maker.message(SCHEMA.message(kind.message), 0);
                let read = |schema: &'static Schema, message| {
                    let mut out = Vec::new();
                    let unknown_fields =
                        members_into((schema, message), Fields::All, false, &raw, usize::MAX, &mut out).expect("the maker makes messages");
                    (out, unknown_fields)
                };
                let (all, nothing) = read(&SCHEMA, kind.message);
                assert!(nothing.is_empty(), "{kind:?}: {nothing}");
                let (some, unknown_fields) = read(thin, thin.kinds[at].message);
                assert!(some == all || !unknown_fields.is_empty(), "{kind:?}\n  {}\n  {}", some.escape_ascii(), all.escape_ascii());
                *(if unknown_fields.is_empty() { &mut whole } else { &mut told }) += 1;
            }
        }
    }
    assert!(told > 300 && whole > 100, "{told} {whole}");
}
