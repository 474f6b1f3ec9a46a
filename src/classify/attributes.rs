//! What is known of a request before it runs.
//!
//! Pure. What a request does not state meets no condition.

use crate::catalog::classifier::QueryType;
use std::net::IpAddr;
use std::sync::Arc;

/// The attributes of a request, from which its resource group follows.
///
/// Texts are compared exactly, case included. They are copied once, when stated; clones share them, so a service
/// can keep one value per tenant and clone it for each request.
///
/// ```
/// use quotient::classify::Attributes;
/// use quotient::catalog::classifier::QueryType;
///
/// let attributes = Attributes::new()
///     .user("bi")
///     .role("analyst")
///     .source_ip([10, 0, 0, 7].into())
///     .db("sales")
///     .query_type(QueryType::Select);
/// assert_eq!(attributes.get_user(), Some("bi"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    user: Option<Arc<str>>,
    roles: Vec<Arc<str>>,
    source_ip: Option<IpAddr>,
    dbs: Vec<Arc<str>>,
    query_type: Option<QueryType>,
    plan_cpu_cost: Option<f64>,
    plan_mem_cost: Option<f64>,
    resource_group: Option<Arc<str>>,
    fingerprint: Option<u64>,
}

impl Attributes {
    /// Attributes of a request of which nothing is known; it belongs to `default_wg`.
    #[must_use]
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// Who asks. The last call counts.
    #[must_use]
    pub fn user(mut self, user: impl AsRef<str>) -> Attributes {
        self.user = Some(Arc::from(user.as_ref()));
        self
    }

    /// One more role of the one who asks.
    #[must_use]
    pub fn role(mut self, role: impl AsRef<str>) -> Attributes {
        self.roles.push(Arc::from(role.as_ref()));
        self
    }

    /// More roles; as [`role`](Attributes::role) for each.
    #[must_use]
    pub fn roles<T: AsRef<str>>(self, roles: impl IntoIterator<Item = T>) -> Attributes {
        roles.into_iter().fold(self, Attributes::role)
    }

    /// Where the request comes from. An IPv4-mapped IPv6 address counts as the IPv4 address.
    #[must_use]
    pub fn source_ip(mut self, address: IpAddr) -> Attributes {
        self.source_ip = Some(address);
        self
    }

    /// One more database that the request reads or writes.
    #[must_use]
    pub fn db(mut self, db: impl AsRef<str>) -> Attributes {
        self.dbs.push(Arc::from(db.as_ref()));
        self
    }

    /// More databases; as [`db`](Attributes::db) for each.
    #[must_use]
    pub fn dbs<T: AsRef<str>>(self, dbs: impl IntoIterator<Item = T>) -> Attributes {
        dbs.into_iter().fold(self, Attributes::db)
    }

    /// What kind of statement it is.
    #[must_use]
    pub fn query_type(mut self, query_type: QueryType) -> Attributes {
        self.query_type = Some(query_type);
        self
    }

    /// The planner's estimate of CPU cost, in the planner's own unit. NaN meets no condition.
    #[must_use]
    pub fn plan_cpu_cost(mut self, cost: f64) -> Attributes {
        self.plan_cpu_cost = Some(cost);
        self
    }

    /// The planner's estimate of memory cost, in the planner's own unit. NaN meets no condition.
    #[must_use]
    pub fn plan_mem_cost(mut self, cost: f64) -> Attributes {
        self.plan_mem_cost = Some(cost);
        self
    }

    /// Names the group instead of having it found; the governor's `allow_override` has the last word.
    /// The empty text takes the wish back.
    #[must_use]
    pub fn resource_group(mut self, group: impl AsRef<str>) -> Attributes {
        let group = group.as_ref();
        self.resource_group = (!group.is_empty()).then(|| Arc::from(group));
        self
    }

    /// What the request has in common with its repetitions, such as a hash of the statement without its literals.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: u64) -> Attributes {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// The user, if stated.
    pub fn get_user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The roles, in the order stated.
    pub fn get_roles(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.roles.iter().map(|role| &**role)
    }

    /// The address as stated, IPv4-mapped or not.
    pub fn get_source_ip(&self) -> Option<IpAddr> {
        self.source_ip
    }

    /// The databases, in the order stated.
    pub fn get_dbs(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.dbs.iter().map(|db| &**db)
    }

    /// The kind of statement, if stated.
    pub fn get_query_type(&self) -> Option<QueryType> {
        self.query_type
    }

    /// The planner's CPU cost, if stated.
    pub fn get_plan_cpu_cost(&self) -> Option<f64> {
        self.plan_cpu_cost
    }

    /// The planner's memory cost, if stated.
    pub fn get_plan_mem_cost(&self) -> Option<f64> {
        self.plan_mem_cost
    }

    /// The group that the request names, if any; never the empty text.
    pub fn get_resource_group(&self) -> Option<&str> {
        self.resource_group.as_deref()
    }

    /// The fingerprint, if stated.
    pub fn get_fingerprint(&self) -> Option<u64> {
        self.fingerprint
    }
}
