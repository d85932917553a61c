//! What an attack did: a result line, a row of a table, and the judgement. Pure.

use crate::attack::{
    honest::{Act, Figures, Phase},
    options::{Attack, Attacks},
};

/// The honest client's p99 may be so many times what it was at rest.
const RATIO: f64 = 3.0;
/// Below this it is not judged, milliseconds: on two cores that the harness shares small numbers grow by themselves.
const FLOOR_MS: f64 = 50.0;
/// Whoever waits this long is shut out, and in the long form whoever waits for half of the attack, milliseconds. On a busy machine nothing else takes as long.
const SHUT_OUT_MS: f64 = 2500.0;
/// How much more than before the server may hold in the end: a fifth, and what an allocator keeps of a small process, MiB.
const KEPT: f64 = 1.2;
/// See [`KEPT`].
const KEPT_MIB: f64 = 32.0;
/// Failures that are printed; the count is of all.
const EXAMPLES: usize = 2;

/// What an attack tells besides the figures.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// For the result line.
    pub(super) notes: Vec<(&'static str, String)>,
    /// What the server must not have done.
    broken: Vec<String>,
}

impl Told {
    /// A word for the result line.
    pub(super) fn note(&mut self, name: &'static str, value: impl ToString) {
        self.notes.push((name, value.to_string()));
    }

    /// The server did what it must not do.
    pub(super) fn blame(&mut self, what: String) {
        self.broken.push(what);
    }
}

/// What the attack cost the server, and the attacker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Resident memory before, at most, and after, MiB.
    pub(super) mib: [u64; 3],
    /// The server's processor time during the attack.
    pub(super) cpu_seconds: f64,
    /// That of this process, honest client included.
    pub(super) attacker_cpu_seconds: f64,
}

impl Cost {
    /// Of a server that has ended: nobody knows what it held.
    pub(super) fn dead(before: u64) -> Self {
        Self { mib: [before, 0, 0], cpu_seconds: 0.0, attacker_cpu_seconds: 0.0 }
    }
}

/// The outcome.
#[derive(Debug)]
pub(crate) struct Report {
    attack: Attack,
    rest: Phase,
    during: Phase,
    cost: Cost,
    told: Told,
}

impl Report {
    /// Judges.
    pub(super) fn new(attack: Attack, sizes: &Attacks, [rest, during]: [Phase; 2], cost: Cost, mut told: Told) -> Self {
        for act in Act::ALL {
            let (then, now) = (&rest[act as usize], &during[act as usize]);
            if !now.failed.is_empty() {
                let some = now.failed.iter().take(EXAMPLES).cloned().collect::<Vec<_>>().join(" | ");
                told.blame(format!("{} failed {} times of {}: {some}", act.name(), now.failed.len(), now.count));
            }
            if now.max > SHUT_OUT_MS.max(sizes.time().as_millis() as f64 / 2.0) {
                told.blame(format!("{} was shut out for {:.1} s", act.name(), now.max / 1000.0));
            }
            if sizes.long && is_late(then, now) {
                told.blame(format!("{} took {:.0} ms (p99), {:.0} at rest", act.name(), now.p99, then.p99));
            }
        }
        let [before, peak, after] = cost.mib;
        if peak > before + sizes.attack_mib {
            told.blame(format!("the server grew from {before} to {peak} MiB"));
        }
        if sizes.long && !attack.stays() && after as f64 > before as f64 * KEPT + KEPT_MIB {
            told.blame(format!("of {peak} MiB it keeps {after}, {before} before"));
        }
        Self { attack, rest, during, cost, told }
    }

    /// Whether nothing was broken.
    #[must_use]
    pub(crate) fn is_well(&self) -> bool {
        self.told.broken.is_empty()
    }

    /// One line of figures, then what was broken.
    #[must_use]
    pub(crate) fn lines(&self, seconds: f64) -> String {
        let acts = Act::ALL.map(|act| format!(" {}={}", act.name(), self.figures(act, ">")));
        let [before, peak, after] = self.cost.mib;
        let notes: Vec<String> = self.told.notes.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let broken: Vec<String> = self.told.broken.iter().map(|b| format!("\n  broken: {b}")).collect();
        format!(
            "{} broken={}{} mib={before}/{peak}/{after} cpu_s={:.1}/{:.1}{} seconds={seconds:.1}{}",
            self.attack.name(),
            broken.len(),
            acts.concat(),
            self.cost.cpu_seconds,
            self.cost.attacker_cpu_seconds,
            notes.concat(),
            broken.concat(),
        )
    }

    /// attack | GET | new connection | write | watch | MB before, peak, after
    #[must_use]
    pub(crate) fn row(&self) -> String {
        let acts = [Act::Get, Act::Connect, Act::Write, Act::Watch].map(|act| format!(" {} |", self.figures(act, " → ")));
        let [before, peak, after] = self.cost.mib;
        format!("| `{}` |{} {before}, {peak}, {after} |", self.attack.name(), acts.concat())
    }

    /// p50/p99/max in milliseconds, at rest and meanwhile; how many failed.
    fn figures(&self, act: Act, between: &str) -> String {
        let three = |f: &Figures| [f.p50, f.p99, f.max].map(short).join("/");
        let (then, now) = (&self.rest[act as usize], &self.during[act as usize]);
        let failed = if now.failed.is_empty() { String::new() } else { format!(" ({} failed)", now.failed.len()) };
        format!("{}{between}{}{failed}", three(then), three(now))
    }
}

/// Milliseconds with a digit after the point where it says something.
fn short(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

fn is_late(then: &Figures, now: &Figures) -> bool {
    now.p99 > FLOOR_MS && now.p99 > then.p99 * RATIO
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::options::Options;

    fn sizes(flags: &[&str]) -> Attacks {
        Options::parse_from(["faults", "attacks"].iter().chain(flags)).attacks
    }

    fn phase(p99: f64) -> Phase {
        Act::ALL.map(|_| Figures { p50: 1.0, p99, max: p99, count: 100, failed: Vec::new() })
    }

    fn report(sizes: &Attacks, rest: f64, during: Phase, mib: [u64; 3]) -> Report {
        let cost = Cost { mib, cpu_seconds: 1.0, attacker_cpu_seconds: 0.5 };
        Report::new(Attack::UnreadLists, sizes, [phase(rest), during], cost, Told::default())
    }

    #[test]
    fn what_grows_too_much_fails_or_keeps_memory_is_broken() {
        let (short, long) = (sizes(&[]), sizes(&["--attack-long"]));
        assert!(report(&short, 2.0, phase(2.0), [50, 306, 50]).is_well());
        assert!(!report(&short, 2.0, phase(2.0), [50, 307, 50]).is_well());
        assert!(report(&long, 2.0, phase(2.0), [100, 200, 152]).is_well());
        assert!(!report(&long, 2.0, phase(2.0), [100, 200, 153]).is_well());
        let mut failed = phase(2.0);
        failed[Act::Watch as usize].failed.push("the watch ended".into());
        assert!(report(&short, 2.0, failed, [50, 50, 50]).lines(1.0).contains("broken: watch failed 1 times of 100: the watch ended"));
    }

    #[test]
    fn lateness_is_judged_in_the_long_form_above_the_floor() {
        let (short, long) = (sizes(&[]), sizes(&["--attack-long"]));
        assert!(report(&short, 20.0, phase(600.0), [50, 50, 50]).is_well());
        assert!(!report(&long, 20.0, phase(61.0), [50, 50, 50]).is_well());
        assert!(report(&long, 20.0, phase(60.0), [50, 50, 50]).is_well());
        assert!(report(&long, 2.0, phase(50.0), [50, 50, 50]).is_well());
    }

    #[test]
    fn a_row_has_the_figures_of_the_table() {
        let row = report(&sizes(&[]), 2.0, phase(600.0), [50, 60, 51]).row();
        let figures = "1.0/2.0/2.0 → 1.0/600/600 |";
        assert_eq!(row, format!("| `unread-lists` | {figures} {figures} {figures} {figures} 50, 60, 51 |"));
    }
}
