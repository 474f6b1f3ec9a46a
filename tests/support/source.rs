//! Enough of Rust's grammar to read which paths and keywords a source file names.
//!
//! Comments and literals are blanked, the rest is cut into words and punctuation. Use groups are unfolded,
//! `super::` is resolved, and what stands under `#[cfg(test)]` is marked.

use std::path::Path;

/// A path or a keyword, and where it stands.
pub(crate) struct Place {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// It stands in a module that is compiled for tests only.
    pub(crate) in_test: bool,
}

/// What one file says.
pub(crate) struct SourceFile {
    /// Below `src/`.
    pub(crate) path: String,
    /// The leading `//!` comment, without its marks.
    pub(crate) header: String,
    pub(crate) lines: usize,
    /// Every path, use groups unfolded, `super` and `$crate` resolved to `crate::…`.
    pub(crate) paths: Vec<Place>,
    pub(crate) words: Vec<Place>,
}

impl SourceFile {
    pub(crate) fn read(path: &str, text: &str) -> SourceFile {
        let header: Vec<&str> = text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .collect();
        let mut reader = Reader {
            tokens: tokens(&blanked(text)),
            at: 0,
            modules: module_of(path),
            open: Vec::new(),
            tests_from: None,
            only_tests: path
                .trim_end_matches(".rs")
                .split('/')
                .any(|part| part == "tests" || part == "loom"),
            depth: 0,
            paths: Vec::new(),
            words: Vec::new(),
        };
        reader.run();
        SourceFile {
            path: path.to_owned(),
            header: header.join("\n"),
            lines: text.lines().count(),
            paths: reader.paths,
            words: reader.words,
        }
    }

    /// The first folder or file below `src/`; none for the crate's root.
    pub(crate) fn room(&self) -> Option<&str> {
        let first = self.path.split('/').next().unwrap_or(&self.path);
        Some(first.trim_end_matches(".rs")).filter(|room| *room != "lib")
    }
}

/// All `.rs` files below `root`, which is relative to the crate.
pub(crate) fn read_tree(root: &str) -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut folders = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the crate") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path).expect("source is UTF-8");
                let below = path.strip_prefix(&root).expect("below the root");
                files.push(SourceFile::read(&below.to_string_lossy(), &text));
            }
        }
    }
    files
}

fn module_of(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = path
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if parts
        .last()
        .is_some_and(|last| last == "mod" || last == "lib")
    {
        parts.pop();
    }
    parts
}

/// The text with comments, strings and characters replaced by blanks; lines stay where they are.
fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        }
    }
    out
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let get = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let after_word = at > 0 && (get(at - 1).is_alphanumeric() || get(at - 1) == '_');
    match get(at) {
        '/' if get(at + 1) == '/' => chars[at..]
            .iter()
            .position(|c| *c == '\n')
            .map_or(chars.len(), |n| at + n),
        '/' if get(at + 1) == '*' => {
            let (mut depth, mut i) = (0, at);
            while i < chars.len() {
                let step = match (get(i), get(i + 1)) {
                    ('/', '*') => {
                        depth += 1;
                        2
                    }
                    ('*', '/') => {
                        depth -= 1;
                        2
                    }
                    _ => 1,
                };
                i += step;
                if depth == 0 {
                    break;
                }
            }
            i.min(chars.len())
        }
        'r' if !after_word || matches!(get(at - 1), 'b' | 'c') => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            if get(at + 1 + hashes) != '"' {
                return at;
            }
            let mut i = at + 2 + hashes;
            while i < chars.len() && !(get(i) == '"' && (1..=hashes).all(|n| get(i + n) == '#')) {
                i += 1;
            }
            (i + 1 + hashes).min(chars.len())
        }
        '"' => {
            let mut i = at + 1;
            while i < chars.len() && get(i) != '"' {
                i += if get(i) == '\\' { 2 } else { 1 };
            }
            (i + 1).min(chars.len())
        }
        // A character, not a lifetime.
        '\'' if get(at + 1) == '\\' || get(at + 2) == '\'' => {
            let mut i = at + 2;
            while i < chars.len() && (get(i) != '\'' || i == at + 2 && get(at + 1) == '\\') {
                i += 1;
            }
            (i + 1).min(chars.len())
        }
        _ => at,
    }
}

struct Token {
    text: String,
    line: usize,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let len = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            out.push(Token {
                text: rest[..len].to_owned(),
                line: number + 1,
            });
            rest = rest[len..].trim_start();
        }
    }
    out
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    /// The module that the reader is in.
    modules: Vec<String>,
    /// Brace depths at which inline modules were opened.
    open: Vec<usize>,
    /// The brace depth of the test module that the reader is in.
    tests_from: Option<usize>,
    /// The whole file is compiled for tests only, as its name says.
    only_tests: bool,
    depth: usize,
    paths: Vec<Place>,
    words: Vec<Place>,
}

impl Reader {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens
            .get(self.at + ahead)
            .map_or("", |token| &token.text)
    }

    fn in_test(&self) -> bool {
        self.only_tests || self.tests_from.is_some()
    }

    fn run(&mut self) {
        let mut test_is_next = false;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "#" if self.peek(1) == "[" && self.peek(2) == "cfg" => {
                    let to = (0..)
                        .find(|n| matches!(self.peek(*n), "]" | ""))
                        .unwrap_or(0);
                    test_is_next =
                        (0..to).any(|n| self.peek(n) == "test" && self.peek(n.max(2) - 2) != "not");
                    self.at += to;
                }
                "mod" if self.peek(2) == "{" => {
                    self.modules.push(self.peek(1).to_owned());
                    self.open.push(self.depth);
                    if test_is_next {
                        self.tests_from.get_or_insert(self.depth);
                    }
                    test_is_next = false;
                    self.depth += 1;
                    self.at += 3;
                }
                "{" => {
                    test_is_next = false;
                    self.depth += 1;
                    self.at += 1;
                }
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.open.last() == Some(&self.depth) {
                        self.open.pop();
                        self.modules.pop();
                    }
                    if self.tests_from == Some(self.depth) {
                        self.tests_from = None;
                    }
                    self.at += 1;
                }
                ";" => {
                    test_is_next = false;
                    self.at += 1;
                }
                word if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                    self.tree(&[]);
                }
                _ => self.at += 1,
            }
        }
    }

    fn note(&mut self, segments: &[String], line: usize) {
        let in_test = self.in_test();
        let text = self.resolved(segments);
        self.paths.push(Place {
            text,
            line,
            in_test,
        });
    }

    /// `super` from the module that the reader is in; a path into the crate begins with `crate`.
    fn resolved(&self, segments: &[String]) -> String {
        let ups = segments.iter().take_while(|s| *s == "super").count();
        if ups == 0 {
            return segments.join("::");
        }
        let stay = self.modules.len().saturating_sub(ups);
        let mut whole = vec!["crate".to_owned()];
        whole.extend_from_slice(&self.modules[..stay]);
        whole.extend_from_slice(&segments[ups..]);
        whole.join("::")
    }

    /// One path or use tree that begins with the word at hand.
    fn tree(&mut self, prefix: &[String]) {
        let mut segments = prefix.to_vec();
        let line = self.tokens[self.at].line;
        loop {
            let word = self.peek(0).to_owned();
            let in_test = self.in_test();
            self.words.push(Place {
                text: word.clone(),
                line,
                in_test,
            });
            segments.push(word);
            self.at += 1;
            if self.peek(0) != "::" {
                break;
            }
            self.at += 1;
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        if self
                            .peek(0)
                            .starts_with(|c: char| c.is_alphabetic() || c == '_')
                        {
                            self.tree(&segments);
                            if self.peek(0) == "as" {
                                self.at += 2;
                            }
                        } else {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                next if next.starts_with(|c: char| c.is_alphabetic() || c == '_') => {}
                _ => break,
            }
        }
        if segments.last().is_some_and(|last| last == "self") && segments.len() > 1 {
            segments.pop();
        }
        self.note(&segments, line);
    }
}
