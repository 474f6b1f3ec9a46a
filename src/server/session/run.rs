//! Runs one statement: where it belongs, if the client may.
//!
//! Mechanism, on the server's thread; a statement that was given a group, on a worker.

use super::Session;
use crate::classify::Attributes;
use crate::governor::Governor;
use crate::server::answer::{Answer, Field};
use crate::server::config::Role;
use crate::server::fault::Fault;
use crate::server::psql::Catalog;
use crate::server::request::{Request, What};
use crate::sql::{Output, Value};
use std::collections::HashSet;
use std::net::IpAddr;

impl Session<'_> {
    /// Runs a statement. Places in the fault are from the beginning of its text.
    pub(super) async fn execute(&mut self, request: &Request) -> Result<Answer, Fault> {
        if self.guest.role != Role::Admin && !request.what.only_looks() {
            let message = format!(
                "permission denied: a {} may not {}",
                self.guest.role.name(),
                request.what.tag()
            );
            return Err(Fault::error("42501", message)
                .hint("SHOW, SELECT and EXPLAIN are allowed; the rest is for admins"));
        }
        match &request.what {
            What::Local(local) => self.local(local).await,
            What::Catalog(query) => Ok(query.answer(&self.catalog(&self.users()))),
            What::Governed(_) => {
                let outputs = self.govern(&request.text).await?;
                let output = outputs.into_iter().next().unwrap_or_default();
                let mut answer = Answer::of(output);
                if request.what.is_for_the_client() {
                    self.leave_out_what_does_not_fit(&mut answer).await?;
                }
                Ok(answer)
            }
        }
    }

    /// The columns of a statement's result, as far as it has rows. Nothing is changed.
    pub(super) async fn describe(
        &mut self,
        request: &Request,
    ) -> Result<Option<Vec<Field>>, Fault> {
        match &request.what {
            What::Local(local) => Ok(self.local_fields(local)),
            What::Catalog(query) => Ok(Some(query.fields())),
            // What only looks is asked, since its columns are in its answer.
            What::Governed(_) if request.what.only_looks() => {
                Ok(self.execute(request).await?.fields)
            }
            What::Governed(_) => Ok(None),
        }
    }

    /// Lets the governor run a script, in the session's group if it has one.
    async fn govern(&self, script: &str) -> Result<Vec<Output>, Fault> {
        let governor = &self.shared.governor;
        // A store may take its time over a change, and then makes it whoever waits.
        let interrupted =
            |fault: Fault| fault.detail("a change that was begun is made all the same");
        let Some(group) = self.group()? else {
            return tokio::select! {
                biased;
                outputs = governor.execute(script) => outputs.map_err(|error| Fault::of_governor(&error)),
                fault = self.stopped() => Err(interrupted(fault)),
            };
        };
        let (inside, script) = (governor.clone(), script.to_owned());
        let run = governor.spawn_in(&group, async move { inside.execute(&script).await });
        let mut task = run.map_err(|error| Fault::of_governor(&error))?;
        tokio::select! {
            biased;
            outputs = &mut task => match outputs {
                Ok(outputs) => outputs.map_err(|error| Fault::of_governor(&error)),
                Err(error) => Err(Fault::error("57014", error.to_string())),
            },
            fault = self.stopped() => {
                task.abort();
                Err(interrupted(fault))
            }
        }
    }

    /// Waits for a reason to end the statement that runs: somebody asks for it, or the client has hung up, and nobody is
    /// there to be answered.
    pub(super) async fn stopped(&self) -> Fault {
        tokio::select! {
            () = self.guest.entry.interrupt.asked() => Fault::cancelled(),
            () = self.wire.hung_up() => Fault::fatal("08006", "connection to client lost"),
        }
    }

    /// The group of the session's statements: that of SET, which is asked for again each time, else the server's.
    fn group(&self) -> Result<Option<String>, Fault> {
        if let Some(name) = self.guest.settings.resource_group() {
            self.choose(name).map(Some)
        } else {
            let group = self.shared.config.group.clone();
            Ok(group.filter(|name| is_there(&self.shared.governor, name)))
        }
    }

    /// Whether the client may have its statements in this group.
    pub(super) fn choose(&self, name: &str) -> Result<String, Fault> {
        let wish = self.attributes().resource_group(name);
        match self.shared.governor.classify(&wish) {
            Ok(group) => Ok(group.name().to_owned()),
            Err(error) => {
                let code = if is_there(&self.shared.governor, name) {
                    "42501"
                } else {
                    "42704"
                };
                let fault = Fault::error(code, error.to_string());
                Err(fault.hint(
                    "RESET resource_group runs the session's statements outside of all groups",
                ))
            }
        }
    }

    fn attributes(&self) -> Attributes {
        let guest = &self.guest;
        let roles = guest.roles.iter().map(String::as_str);
        let attributes = Attributes::new()
            .user(&guest.user)
            .roles(roles.chain([guest.role.name()]));
        match guest.address {
            Some(address) => attributes.source_ip(address),
            None => attributes,
        }
    }

    /// Keeps the groups that have a classifier whose user, role and address fit the client.
    async fn leave_out_what_does_not_fit(&self, answer: &mut Answer) -> Result<(), Fault> {
        let script = "SELECT group_name, user_name, role, source_ip FROM classifiers";
        let outputs = self.govern(script).await?;
        let attributes = self.attributes();
        let is = |value: &Value, fits: &dyn Fn(&str) -> bool| match value {
            Value::Text(text) => fits(text),
            _ => true,
        };
        let mut fitting: HashSet<&str> = HashSet::new();
        for row in outputs.iter().flat_map(Output::rows) {
            if let [Value::Text(group), user, role, address] = row.as_slice()
                && is(user, &|user| attributes.get_user() == Some(user))
                && is(role, &|role| attributes.get_roles().any(|own| own == role))
                && is(address, &|net| contains(net, attributes.get_source_ip()))
            {
                fitting.insert(group);
            }
        }
        let fields = answer.fields.iter().flatten();
        let name = fields
            .into_iter()
            .position(|field| field.name == "name")
            .unwrap_or_default();
        answer.rows.retain(|row| match row.get(name) {
            Some(Value::Text(group)) => fitting.contains(group.as_str()),
            _ => true,
        });
        Ok(())
    }

    /// Who may come in; without passwords, only this client is known.
    pub(super) fn users(&self) -> Vec<(String, bool)> {
        let members = &self.shared.members.all;
        if members.is_empty() {
            return vec![(self.guest.user.clone(), true)];
        }
        let member = |member: &crate::server::auth::Member| {
            (member.name.clone(), member.role == Role::Admin)
        };
        members.iter().map(member).collect()
    }

    fn catalog<'s>(&'s self, users: &'s [(String, bool)]) -> Catalog<'s> {
        Catalog {
            views: &self.shared.views,
            users,
            database: &self.guest.database,
            owner: users
                .iter()
                .find(|(_, admin)| *admin)
                .map_or("quotient", |(name, _)| name),
        }
    }

    /// The columns of the view that a SELECT reads.
    pub(super) fn columns_of(&self, view: &str) -> &[(String, crate::sql::Type)] {
        let found = self.shared.views.iter().find(|known| known.name == view);
        found.map_or(&[], |known| known.columns.as_slice())
    }
}

fn is_there(governor: &Governor, group: &str) -> bool {
    governor.has_group(group)
}

fn contains(net: &str, address: Option<IpAddr>) -> bool {
    let net: Result<ipnet::IpNet, _> = net.parse();
    match (net, address) {
        (Ok(net), Some(address)) => net.contains(&address),
        _ => false,
    }
}
