//! The tables of `.ci`: each room has a row that names phases that exist, each phase proves some room, and what a change runs stays within its time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{none, read, root};

/// Minutes that the change of one room may take, from cold on two cores.
const ROOM_MINUTES: u32 = 45;
/// The same of a change of every room.
const EVERYTHING_MINUTES: u32 = 65;
/// Phases that run at a time (`JOBS` of `.ci/run`).
const AT_ONCE: u32 = 4;
/// Rooms that may change before only the short proofs run (`FEW` of `.ci/plan.py`).
const FEW: usize = 3;
/// How a phase may run.
const MANNERS: &[&str] = &["alone", "beside", "build", "cargo", "inside", "low"];
/// Folders whose folders are rooms.
const HOUSES: &[&str] = &["src", "tests"];
/// What is in the root and no room, for git or cargo makes it.
const NO_ROOMS: &[&str] = &[".git", "target"];
/// What proves every change.
const ALWAYS: &str = "always";
/// README's own command.
const TESTS: &str = "cargo-test";

/// A row of `.ci/phases`.
struct Phase {
    manner: String,
    minutes: u32,
    needs: Vec<String>,
}

/// A row of `.ci/rooms`: phases of each change, and of a change of few rooms.
struct Room {
    phases: Vec<String>,
    more: Vec<String>,
}

fn rows(file: &str) -> Vec<Vec<String>> {
    let text = read(&root().join(".ci").join(file));
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn list(cell: &str) -> Vec<String> {
    if cell == "-" { Vec::new() } else { cell.split(',').map(str::to_owned).collect() }
}

/// The phases by name, with their place in the table.
fn phases() -> BTreeMap<String, (usize, Phase)> {
    let phase = |(nth, row): (usize, Vec<String>)| {
        let [name, manner, minutes, needs, ..] = &row[..] else { panic!("a phase has five columns: {row:?}") };
        let minutes = minutes.parse().unwrap_or_else(|_| panic!("{name}: {minutes} are no minutes"));
        (name.clone(), (nth, Phase { manner: manner.clone(), minutes, needs: list(needs) }))
    };
    rows("phases").into_iter().enumerate().map(phase).collect()
}

fn rooms() -> BTreeMap<String, Room> {
    let room = |row: Vec<String>| {
        let [name, phases, more] = &row[..] else { panic!("a room has three columns: {row:?}") };
        (name.clone(), Room { phases: list(phases), more: list(more) })
    };
    rows("rooms").into_iter().map(room).collect()
}

#[test]
fn phases_exist_and_come_after_what_they_need() {
    let (phases, script, mut wrong) = (phases(), read(&root().join(".ci/run")), Vec::new());
    let page = read(&root().join("docs/ci.md"));
    for (name, (nth, phase)) in &phases {
        let function = format!("\n{}() {{", name.replace('-', "_"));
        wrong.extend((!script.contains(&function)).then(|| format!(".ci/run has no function for {name}")));
        wrong.extend((!page.contains(&format!("| `{name}` |"))).then(|| format!("docs/ci.md has no row for {name}")));
        wrong.extend((!MANNERS.contains(&&*phase.manner)).then(|| format!("{name} runs {}", phase.manner)));
        let late = phase.needs.iter().filter(|need| phases.get(*need).is_none_or(|(before, _)| before >= nth));
        wrong.extend(late.map(|need| format!("{name} needs {need}, which does not come before it")));
    }
    none(&wrong);
}

#[test]
fn every_room_has_phases_and_every_phase_a_room() {
    let (phases, rooms, mut wrong) = (phases(), rooms(), Vec::new());
    for room in there() {
        wrong.extend((!rooms.contains_key(&room)).then(|| format!(".ci/rooms has no row for {room}")));
    }
    for (name, room) in &rooms {
        let is_there = [ALWAYS, "."].contains(&&**name) || root().join(name).exists() || root().join(format!("{name}.rs")).exists();
        wrong.extend((!is_there).then(|| format!("{name} is no room")));
        wrong.extend(room.phases.is_empty().then(|| format!("nothing proves {name}")));
        let unknown =
            room.phases.iter().chain(&room.more).filter(|phase| phases.get(*phase).is_none_or(|(_, phase)| phase.manner == "build"));
        wrong.extend(unknown.map(|phase| format!("{name} names {phase}, which proves nothing")));
    }
    let named: BTreeSet<&String> = rooms.values().flat_map(|room| room.phases.iter().chain(&room.more)).collect();
    let unnamed = phases.iter().filter(|(name, (_, phase))| phase.manner != "build" && !named.contains(name));
    wrong.extend(unnamed.map(|(name, _)| format!("{name} proves no room")));
    assert!(rooms[ALWAYS].phases.iter().any(|phase| phase == TESTS), "README's command is always run");
    none(&wrong);
}

#[test]
fn a_change_is_proved_in_its_time() {
    let (rooms, mut wrong) = (rooms(), Vec::new());
    let of = |names: &[&String], is_short: bool| -> BTreeSet<String> {
        let rooms = names.iter().map(|name| &rooms[*name]).chain([&rooms[ALWAYS]]);
        rooms.flat_map(|room| room.phases.iter().chain(if is_short { &[][..] } else { &room.more })).cloned().collect()
    };
    for name in rooms.keys() {
        let minutes = minutes(&of(&[name], false));
        wrong.extend((minutes > ROOM_MINUTES).then(|| format!("a change of {name} takes {minutes} min, more than {ROOM_MINUTES}")));
    }
    let all: Vec<&String> = rooms.keys().collect();
    let minutes = minutes(&of(&all, all.len() > FEW));
    wrong.extend(
        (minutes > EVERYTHING_MINUTES).then(|| format!("a change of every room takes {minutes} min, more than {EVERYTHING_MINUTES}")),
    );
    none(&wrong);
}

/// How long phases take with all that they need: as long as the longest chain of them, and as all together when as many run as may; and those that run alone.
fn minutes(wanted: &BTreeSet<String>) -> u32 {
    let phases = phases();
    let (mut ahead, mut found) = (wanted.iter().cloned().collect::<Vec<_>>(), BTreeSet::new());
    while let Some(name) = ahead.pop() {
        if found.insert(name.clone()) {
            ahead.extend(phases[&name].1.needs.iter().cloned());
        }
    }
    fn chain(phases: &BTreeMap<String, (usize, Phase)>, name: &str) -> u32 {
        let phase = &phases[name].1;
        phase.minutes + phase.needs.iter().map(|need| chain(phases, need)).max().unwrap_or(0)
    }
    let (alone, beside): (Vec<_>, Vec<_>) =
        found.iter().map(|name| (name, &phases[name].1)).partition(|(_, phase)| phase.manner == "alone");
    let sum = |some: &[(&String, &Phase)]| some.iter().map(|(_, phase)| phase.minutes).sum::<u32>();
    let longest = beside.iter().map(|(name, _)| chain(&phases, name)).max().unwrap_or(0);
    longest.max(sum(&beside).div_ceil(AT_ONCE)) + sum(&alone)
}

/// The rooms that there are: folders and files of the root, and of the folders below which each folder is a room.
fn there() -> BTreeSet<String> {
    let inside = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect("it is there").map(|entry| entry.expect("readable"));
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().is_dir())).collect::<Vec<_>>()
    };
    let mut rooms = BTreeSet::from([".".to_owned()]);
    // Files of the root are the room `.`, and files of a house a room of the house's name, if they are not of `src`.
    let folders =
        inside("").into_iter().filter(|(name, is_dir)| *is_dir && !NO_ROOMS.contains(&&**name) && name != "src" && name != ".cargo");
    rooms.extend(folders.map(|(name, _)| name));
    for house in HOUSES {
        let rows = inside(house).into_iter().filter(|(name, is_dir)| *is_dir || *house == "src" && name.ends_with(".rs"));
        rooms.extend(rows.map(|(name, is_dir)| {
            let stem = name.strip_suffix(".rs").filter(|stem| !is_dir && root().join(house).join(stem).is_dir());
            format!("{house}/{}", stem.unwrap_or(&name))
        }));
    }
    rooms
}
