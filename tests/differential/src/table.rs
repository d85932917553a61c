//! What is printed of the comparison of refusals: the differences of each resource, and a table of all.

use std::{cmp::Reverse, collections::HashMap, io::Write};

use anyhow::{Context, Result};

use crate::{refusals::Report, resource::Resource};

/// Characters of an answer or a request.
const SHOWN_MAX: usize = 1500;

/// Least percent of refusals with equal causes, by resource.
pub(crate) struct Validated<'t>(HashMap<&'t str, f64>);

impl<'t> Validated<'t> {
    /// Reads `RESOURCE PERCENT` lines; `#` begins a remark.
    pub(crate) fn parse(text: &'t str) -> Result<Self> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty());
        let read = |line: &'t str| {
            let (name, percent) = line.split_once(' ').with_context(|| format!("no percent: {line}"))?;
            Ok((name, percent.trim().parse().with_context(|| format!("no percent: {line}"))?))
        };
        Ok(Self(lines.map(read).collect::<Result<_>>()?))
    }

    /// Whether a resource falls below what it must reach; those that are not listed do not.
    pub(crate) fn falls_below(&self, name: &str, report: &Report) -> bool {
        self.0.get(name).is_some_and(|least| report.percent() < *least)
    }
}

/// Prints the most frequent differences of a resource with a request of each.
pub(crate) fn differences(out: &mut impl Write, resource: &Resource, report: &Report, shown: usize) -> Result<()> {
    let short = |text: &str| text.chars().take(SHOWN_MAX).collect::<String>();
    let mut groups: Vec<_> = report.groups.iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.count));
    writeln!(out, "{}: {} kinds of differences", resource.name, groups.len())?;
    for (difference, group) in groups.into_iter().take(shown) {
        writeln!(out, "  {} {difference}", group.count)?;
        writeln!(
            out,
            "      ours   {}\n      theirs {}\n      sent   {}",
            short(&group.ours),
            short(&group.theirs),
            short(&group.request)
        )?;
    }
    Ok(())
}

/// Prints a row for each resource and one for all; returns how many fell below what they must reach.
pub(crate) fn table(out: &mut impl Write, reports: &[(&Resource, Report)], validated: &Validated<'_>) -> Result<usize> {
    let (mut sum, mut below) = (Report::default(), 0);
    writeln!(out, "{:<60} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}", "resource", "asked", "refused", "verdict=", "causes=", "alone", "percent")?;
    let mut row = |name: &str, report: &Report, mark: &str| {
        let Report { asked, refused, verdict_equal, causes_equal, refused_alone, .. } = report;
        writeln!(
            out,
            "{name:<60} {asked:>8} {refused:>8} {verdict_equal:>8} {causes_equal:>8} {refused_alone:>8} {:>6.1}%{mark}",
            report.percent()
        )
    };
    for (resource, report) in reports {
        let falls = validated.falls_below(&resource.name, report);
        below += usize::from(falls);
        row(&resource.name, report, if falls { " BELOW" } else { "" })?;
        sum.asked += report.asked;
        sum.refused += report.refused;
        sum.verdict_equal += report.verdict_equal;
        sum.causes_equal += report.causes_equal;
        sum.refused_alone += report.refused_alone;
    }
    row("all", &sum, "")?;
    Ok(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_must_reach_its_percent() {
        let validated = Validated::parse("# head\nv1/pods 90 # why\n").expect("lines");
        let report = |refused, causes_equal| Report { refused, causes_equal, ..Report::default() };
        assert!(validated.falls_below("v1/pods", &report(100, 89)));
        assert!(!validated.falls_below("v1/pods", &report(100, 90)));
        assert!(!validated.falls_below("v1/pods", &report(0, 0)), "nothing was refused");
        assert!(!validated.falls_below("v1/nodes", &report(100, 0)));
        assert!(Validated::parse("v1/pods\n").is_err());
    }
}
