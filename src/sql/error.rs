//! What is wrong with a statement, where, and what to write instead.
//!
//! Pure. The data is in fields; texts are made from it.

mod refusal;

use super::select::SelectError;
use super::span::Span;

/// A statement was refused: it cannot be read, or it asks for something that is not allowed. Nothing of the
/// statement has been applied.
///
/// `Display` says everything in one line; [`SqlError::render`] draws the place as well.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlError(Box<Refusal>);

/// The fields of a [`SqlError`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// What is wrong. Its `Display` is the message alone.
    pub kind: SqlErrorKind,
    /// Where, in characters of the whole script. `line` is 0 when the statement did not come from a text.
    pub span: Span,
    /// What is allowed, with an example.
    pub hint: Option<String>,
    /// The known word that is closest to the one found.
    pub did_you_mean: Option<String>,
    /// Which statement of the script, from 1.
    pub statement: usize,
    /// How many statements of the script were applied before it.
    pub applied: usize,
}

/// The beginning of a text: a message is for reading, the whole text is in the field.
fn short(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// What is wrong with a statement.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SqlErrorKind {
    /// Longer than the cap; refused before it is read.
    #[error("the {what} has {bytes} bytes, allowed are {limit}")]
    TooLong {
        /// `statement` or `script`.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The cap.
        limit: usize,
    },
    /// A character that may not occur anywhere: NUL.
    #[error("the character U+{:04X} is not allowed", u32::from(*character))]
    BadCharacter {
        /// The character.
        character: char,
    },
    /// A quote or a comment is opened and never closed.
    #[error("this {what} is never closed")]
    Unterminated {
        /// `'text'`, `"text"`, `` `name` `` or `/* comment */`.
        what: &'static str,
    },
    /// The grammar asks for something else here.
    #[error("found {found}, expected {expected}")]
    Syntax {
        /// The token in the text.
        found: String,
        /// What may stand here.
        expected: String,
    },
    /// A name of a group that breaks the rule for names.
    #[error("{:?} is not a name for a resource group", short(name))]
    BadName {
        /// The name.
        name: String,
    },
    /// A classifier's condition with an operator that does not exist.
    #[error("the condition on '{}' cannot use {operator}", short(key))]
    IllegalOperator {
        /// The condition's key.
        key: String,
        /// The operator in the text.
        operator: String,
    },
    /// A classifier's condition whose value is not a quoted text.
    #[error(
        "the condition on '{}' compares with {found}, not with a quoted text",
        short(key)
    )]
    IllegalOperand {
        /// The condition's key.
        key: String,
        /// The token in the text.
        found: String,
    },
    /// A classifier without any condition.
    #[error("the classifier has no condition")]
    EmptyClassifier,
    /// `WITH ()`.
    #[error("WITH sets nothing")]
    NothingToSet,
    /// The same key twice in one classifier or one WITH, aliases included, or the same id twice in DROP.
    #[error("'{key}' is given twice")]
    Duplicate {
        /// The key or id.
        key: String,
    },
    /// A property that does not exist.
    #[error("unknown property '{}'", short(key))]
    UnknownProperty {
        /// The key.
        key: String,
    },
    /// A variable that does not exist.
    #[error("unknown variable '{}'", short(name))]
    UnknownVariable {
        /// Its name.
        name: String,
    },
    /// A classifier's key that does not exist.
    #[error("unknown classifier key '{}'", short(key))]
    UnknownClassifierKey {
        /// The key.
        key: String,
    },
    /// An attribute of a request that does not exist.
    #[error("unknown attribute '{}'", short(key))]
    UnknownAttribute {
        /// The key.
        key: String,
    },
    /// IN on a key that takes one value.
    #[error("'{key}' takes one value, IN is for 'query_type' only")]
    NotAList {
        /// The key.
        key: String,
    },
    /// A value of the wrong type or outside the range.
    #[error("'{key}' cannot be {:?}: {why}", short(value))]
    BadValue {
        /// The property or classifier key.
        key: String,
        /// The value in the text.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// A value that is right in itself but more than this machine has.
    #[error("'{key}' cannot be {:?}: {why}", short(value))]
    BeyondMachine {
        /// The property.
        key: &'static str,
        /// The value in the text.
        value: String,
        /// What the machine has.
        why: String,
    },
    /// A property that is fixed when the group is created.
    #[error("'{key}' cannot be changed after the group is created")]
    Immutable {
        /// The property.
        key: &'static str,
    },
    /// Two properties of one group that exclude each other.
    #[error("{name} cannot have {first} together with {second}")]
    Conflict {
        /// The group.
        name: String,
        /// One of them, with its value.
        first: String,
        /// The other one, with its value.
        second: String,
    },
    /// No such group.
    #[error("resource group {name} does not exist")]
    UnknownGroup {
        /// The name.
        name: String,
    },
    /// CREATE of a name that is taken.
    #[error("resource group {name} already exists")]
    GroupExists {
        /// The name.
        name: String,
    },
    /// The built-in group is not dropped, keeps its type and takes no classifiers.
    #[error("{name} is built in: {why}")]
    Builtin {
        /// The group.
        name: String,
        /// What it does not allow.
        why: &'static str,
    },
    /// DROP of a classifier that the group does not have.
    #[error("{group} has no classifier {id}{}", .owner.as_ref().map(|o| format!(", it belongs to {o}")).unwrap_or_default())]
    UnknownClassifier {
        /// The id.
        id: u64,
        /// The group in the statement.
        group: String,
        /// The group that has it, if any.
        owner: Option<String>,
    },
    /// The same conditions as another classifier, after normalising.
    #[error("{group} has an identical classifier{}", .id.map(|i| format!(" (id {i})")).unwrap_or_default())]
    IdenticalClassifier {
        /// The group that has it.
        group: String,
        /// Its id; absent when it stands in the same statement.
        id: Option<u64>,
    },
    /// DROP of a group that another one names in `big_query_action`.
    #[error("{name} is the target of big_query_action of {by}")]
    InUse {
        /// The group.
        name: String,
        /// The group that names it.
        by: String,
    },
    /// KILL of a query that neither runs nor waits.
    #[error("there is no query {id}; perhaps it has ended")]
    UnknownQuery {
        /// The id.
        id: u64,
    },
    /// DROP WATCH of what is not watched.
    #[error("there is no watch {id}; perhaps it has ended")]
    UnknownWatch {
        /// The id.
        id: u64,
    },
    /// The change could not be kept where the catalog is stored, and was not made.
    #[error("the change could not be kept: {what}")]
    NotKept {
        /// What the store says.
        what: String,
    },
    /// Somebody else changed what is kept where the catalog is stored; the change was not made.
    #[error("{place} was changed by somebody else since it was read")]
    ChangedElsewhere {
        /// Where the catalog is kept.
        place: String,
    },
    /// The answer of where the catalog is stored was lost: the change was made, or was not.
    #[error("nobody knows whether the change was kept: {what}")]
    PerhapsKept {
        /// What the store says.
        what: String,
    },
    /// ROLLBACK to a version that is not kept.
    #[error("version {version} of the catalog is not kept")]
    UnknownVersion {
        /// The version.
        version: u64,
    },
    /// A LIKE pattern whose last character is a backslash that escapes nothing.
    #[error("the LIKE pattern must not end with the escape character \\")]
    OpenEscape,
    /// A SELECT that cannot be answered.
    #[error(transparent)]
    Select(SelectError),
    /// A statement that is answered elsewhere, or not by this version.
    #[error("{what} is not supported here")]
    Unsupported {
        /// The statement.
        what: String,
    },
}

impl SqlErrorKind {
    /// The SQLSTATE, five characters, as PostgreSQL would choose it.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            SqlErrorKind::TooLong { .. } => "54000",
            SqlErrorKind::BadCharacter { .. } => "22021",
            SqlErrorKind::Unterminated { .. }
            | SqlErrorKind::Syntax { .. }
            | SqlErrorKind::IllegalOperator { .. }
            | SqlErrorKind::IllegalOperand { .. }
            | SqlErrorKind::EmptyClassifier
            | SqlErrorKind::NothingToSet
            | SqlErrorKind::Duplicate { .. }
            | SqlErrorKind::NotAList { .. } => "42601",
            SqlErrorKind::BadName { .. } => "42602",
            SqlErrorKind::UnknownProperty { .. }
            | SqlErrorKind::UnknownVariable { .. }
            | SqlErrorKind::UnknownClassifierKey { .. }
            | SqlErrorKind::UnknownAttribute { .. }
            | SqlErrorKind::UnknownGroup { .. }
            | SqlErrorKind::UnknownClassifier { .. }
            | SqlErrorKind::UnknownQuery { .. }
            | SqlErrorKind::UnknownWatch { .. } => "42704",
            SqlErrorKind::BadValue { .. } | SqlErrorKind::BeyondMachine { .. } => "22023",
            SqlErrorKind::Immutable { .. } | SqlErrorKind::Builtin { .. } => "55000",
            SqlErrorKind::Conflict { .. } => "42P17",
            SqlErrorKind::GroupExists { .. } | SqlErrorKind::IdenticalClassifier { .. } => "42710",
            SqlErrorKind::InUse { .. } => "2BP01",
            SqlErrorKind::NotKept { .. } => "58030",
            SqlErrorKind::ChangedElsewhere { .. } => "40001",
            SqlErrorKind::PerhapsKept { .. } => "08007",
            SqlErrorKind::UnknownVersion { .. } => "42704",
            SqlErrorKind::OpenEscape => "22025",
            SqlErrorKind::Select(error) => error.sqlstate(),
            SqlErrorKind::Unsupported { .. } => "0A000",
        }
    }

    /// A stable word for the kind: `bad_value`, `unknown_group`. Good as a metric label.
    pub fn code(&self) -> &'static str {
        match self {
            SqlErrorKind::TooLong { .. } => "too_long",
            SqlErrorKind::BadCharacter { .. } => "bad_character",
            SqlErrorKind::Unterminated { .. } => "unterminated",
            SqlErrorKind::Syntax { .. } => "syntax",
            SqlErrorKind::BadName { .. } => "bad_name",
            SqlErrorKind::IllegalOperator { .. } => "illegal_operator",
            SqlErrorKind::IllegalOperand { .. } => "illegal_operand",
            SqlErrorKind::EmptyClassifier => "empty_classifier",
            SqlErrorKind::NothingToSet => "nothing_to_set",
            SqlErrorKind::Duplicate { .. } => "duplicate",
            SqlErrorKind::UnknownProperty { .. } => "unknown_property",
            SqlErrorKind::UnknownVariable { .. } => "unknown_variable",
            SqlErrorKind::UnknownClassifierKey { .. } => "unknown_classifier_key",
            SqlErrorKind::UnknownAttribute { .. } => "unknown_attribute",
            SqlErrorKind::NotAList { .. } => "not_a_list",
            SqlErrorKind::BadValue { .. } => "bad_value",
            SqlErrorKind::BeyondMachine { .. } => "beyond_machine",
            SqlErrorKind::Immutable { .. } => "immutable",
            SqlErrorKind::Conflict { .. } => "conflict",
            SqlErrorKind::UnknownGroup { .. } => "unknown_group",
            SqlErrorKind::GroupExists { .. } => "group_exists",
            SqlErrorKind::Builtin { .. } => "builtin",
            SqlErrorKind::UnknownClassifier { .. } => "unknown_classifier",
            SqlErrorKind::IdenticalClassifier { .. } => "identical_classifier",
            SqlErrorKind::InUse { .. } => "in_use",
            SqlErrorKind::UnknownQuery { .. } => "unknown_query",
            SqlErrorKind::UnknownWatch { .. } => "unknown_watch",
            SqlErrorKind::NotKept { .. } => "not_kept",
            SqlErrorKind::ChangedElsewhere { .. } => "changed_elsewhere",
            SqlErrorKind::PerhapsKept { .. } => "perhaps_kept",
            SqlErrorKind::UnknownVersion { .. } => "unknown_version",
            SqlErrorKind::OpenEscape => "open_escape",
            SqlErrorKind::Select(error) => error.code(),
            SqlErrorKind::Unsupported { .. } => "unsupported",
        }
    }
}
