//! Whatever a page leads to is there: files and headings; and every page of the docs is found from their table of contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{files, none, read, root};

/// Where people begin to read.
const CONTENTS: &str = "docs/README.md";

/// A page: where its links lead to, with the lines on which they stand, and the anchors of its headings.
struct Page {
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    assert!(pages.len() > 60 && pages.values().map(|page| page.links.len()).sum::<usize>() > 150, "{} pages", pages.len());
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        for (line, link) in &page.links {
            let (file, anchor) = target(path, link);
            let is_there = root().join(&file).exists();
            let is_anchor = anchor.is_none_or(|anchor| pages.get(&file).is_some_and(|page| page.anchors.contains(anchor)));
            if !is_there || !is_anchor {
                wrong.push(format!("{}:{line}: {link} leads nowhere", path.display()));
            }
        }
    }
    none(&wrong);
}

#[test]
fn every_page_is_found_from_the_contents() {
    let pages = pages();
    let (mut found, mut ahead) = (BTreeSet::new(), vec![PathBuf::from(CONTENTS)]);
    while let Some(path) = ahead.pop() {
        if !found.insert(path.clone()) {
            continue;
        }
        for (_, link) in pages.get(&path).map_or(&[][..], |page| &page.links) {
            let file = target(&path, link).0;
            ahead.push(if root().join(&file).is_dir() { file.join("README.md") } else { file });
        }
    }
    let lost = pages.keys().filter(|path| path.starts_with("docs") && !found.contains(*path));
    none(&lost.map(|path| format!("{} is not found from {CONTENTS}", path.display())).collect::<Vec<_>>());
}

/// The checks see what they look for.
#[test]
fn the_reader_of_pages_reads() {
    let page = parsed(
        "# A `b` c: d, e-f_g\n## A\n## A\n[x](y.md) `[no](no)` ![p](p.png \"t\") [two](<a b.md#c>)\n```sh\n# no\n[no](no)\n```\n  ~~~\n[no](no)\n  ~~~\n[w](https://w)\n[r]: z.md#q\n<a href=\"h.md\">",
    );
    let links: Vec<(usize, &str)> = page.links.iter().map(|(line, link)| (*line, link.as_str())).collect();
    assert_eq!(links, [(4, "y.md"), (4, "p.png"), (4, "a b.md#c"), (13, "z.md#q"), (14, "h.md")]);
    assert_eq!(page.anchors.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "a-1", "a-b-c-d-e-f_g"]);
    assert_eq!(target(Path::new("docs/a/b.md"), "../c.md#d"), (PathBuf::from("docs/c.md"), Some("d")));
    assert_eq!(target(Path::new("docs/b.md"), "#d"), (PathBuf::from("docs/b.md"), Some("d")));
}

/// Every Markdown file of the project.
fn pages() -> BTreeMap<PathBuf, Page> {
    let places = ["README.md", "docs", "deploy", "tests", "benches", "src", "proto"];
    let pages = files(&places).filter(|file| file.extension().is_some_and(|end| end == "md"));
    pages.map(|file| (file.strip_prefix(root()).expect("a file of the project").to_owned(), parsed(&read(&file)))).collect()
}

fn parsed(text: &str) -> Page {
    let mut page = Page { links: Vec::new(), anchors: BTreeSet::new() };
    let mut fence: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let title = line.trim_start_matches('#');
                if title.len() < line.len() && title.starts_with(' ') {
                    page.anchors.insert(anchor(title, &page.anchors));
                }
                page.links.extend(links(&without_code(line)).into_iter().map(|link| (number + 1, link)));
            }
        }
    }
    page
}

/// As GitHub makes it of a heading.
fn anchor(title: &str, there: &BTreeSet<String>) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let made: String = kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
    let mut numbered = (1..).map(|nth| format!("{made}-{nth}"));
    if there.contains(&made) { numbered.find(|name| !there.contains(name)).expect("there are enough numbers") } else { made }
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The targets of a line's links that are no addresses of the web.
fn links(line: &str) -> Vec<String> {
    let inline = line.match_indices("](").filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        match rest.strip_prefix('<') {
            Some(rest) => rest.split_once('>').map(|(link, _)| link),
            None => rest.split([')', ' ']).next(),
        }
    });
    let defined = line.starts_with('[').then(|| line.split_once("]: ").map(|(_, link)| link.trim())).flatten();
    let written = ["href=\"", "src=\""].into_iter().flat_map(|start| line.split(start).skip(1).filter_map(|rest| rest.split('"').next()));
    let is_ours = |link: &&str| !link.contains("://") && !link.starts_with("mailto:");
    inline.chain(defined).chain(written).filter(is_ours).map(str::to_owned).collect()
}

/// The file that a link leads to, from the project's folder, and the heading there.
fn target<'a>(page: &Path, link: &'a str) -> (PathBuf, Option<&'a str>) {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    if file.is_empty() {
        return (page.to_owned(), anchor);
    }
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    (path, anchor)
}
