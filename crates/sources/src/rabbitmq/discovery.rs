//! What a topology says about dead letters: which queues hold them, and which settings lose them. Pure; talks to nobody.

use std::collections::BTreeSet;

use serde_json::Value;

use super::management::{QueueInfo, Topology};
use crate::{Finding, FoundQueue};

/// Queues that are named in one finding; the rest is counted.
const NAMED_MAX: usize = 10;

/// Ends of names that frameworks and people give to dead-letter queues.
const CONVENTIONS: [&str; 9] =
    ["-dlq", ".dlq", "_dlq", ".dead-letter", "-dead-letter", "_error", "_skipped", ".XQ", ".errors"];

impl Topology {
    pub fn queue(&self, name: &str) -> Option<&QueueInfo> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// Names of the queues that a message reaches, in order. Headers exchanges reach every queue that is bound.
    pub fn reached(&self, exchange: &str, routing_key: &str) -> BTreeSet<String> {
        let (mut queues, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting = vec![exchange.to_owned()];
        while let Some(exchange) = waiting.pop() {
            if exchange.is_empty() {
                queues.extend(self.queue(routing_key).map(|queue| queue.name.clone()));
                continue;
            }
            if !seen.insert(exchange.clone()) {
                continue;
            }
            let kind = self.exchanges.iter().find(|known| known.name == exchange).map(|it| it.kind.as_str());
            for binding in self.bindings.iter().filter(|binding| binding.source == exchange) {
                let is_match = match kind {
                    Some("direct") => binding.routing_key == routing_key,
                    Some("topic") => topic_matches(&binding.routing_key, routing_key),
                    _ => true,
                };
                match (is_match, binding.destination_type.as_str()) {
                    (true, "exchange") => waiting.push(binding.destination.clone()),
                    (true, _) => drop(queues.insert(binding.destination.clone())),
                    (false, _) => {}
                }
            }
        }
        queues
    }

    /// Queues that messages of `queue` are dead-lettered to; nothing if it has no dead-letter exchange. A message keeps its
    /// routing key unless the queue sets one, so without one every bound queue counts.
    fn dead_letters_to(&self, queue: &QueueInfo) -> Option<BTreeSet<String>> {
        let exchange = queue.text("dead-letter-exchange")?;
        Some(match queue.text("dead-letter-routing-key") {
            Some(key) => self.reached(exchange, key),
            None if exchange.is_empty() => self.reached(exchange, &queue.name),
            None => {
                let bound = self.bindings.iter().filter(|binding| binding.source == exchange);
                bound.flat_map(|binding| self.reached(exchange, &binding.routing_key)).collect()
            }
        })
    }

    /// Queues that wait with a time to live and give their messages back to a queue that is worked on: delays of retries.
    fn is_delay(&self, queue: &QueueInfo) -> bool {
        let is_drained = queue.consumers.unwrap_or(0) > 0;
        queue.setting("message-ttl").is_some() && queue.text("dead-letter-exchange").is_some() && !is_drained
    }
}

/// Queues that seem to hold dead letters, fullest first; `captured` are those that Lazaret captures from.
pub fn discover(topology: &Topology, captured: &[&str]) -> Vec<FoundQueue> {
    let mut found: Vec<FoundQueue> = Vec::new();
    for queue in topology.queues.iter().filter(|queue| !topology.is_delay(queue)) {
        let feeds = |other: &&QueueInfo| {
            other.name != queue.name
                && !topology.is_delay(other)
                && topology.dead_letters_to(other).is_some_and(|to| to.contains(&queue.name))
        };
        let fed_by: Vec<String> =
            topology.queues.iter().filter(feeds).map(|queue| queue.name.clone()).collect();
        let is_named_so = queue.name == "error" || CONVENTIONS.iter().any(|end| queue.name.ends_with(end));
        if !fed_by.is_empty() || is_named_so {
            found.push(FoundQueue {
                name: queue.name.clone(),
                depth: queue.messages,
                publish_rate: queue.publish_rate(),
                deliver_rate: queue.deliver_rate(),
                consumers: queue.consumers,
                fed_by,
                is_captured: captured.contains(&queue.name.as_str()),
            });
        }
    }
    found.sort_by(|a, b| b.depth.cmp(&a.depth).then_with(|| a.name.cmp(&b.name)));
    found
}

/// What would lose dead letters, seen from the queues that Lazaret captures from. The queue of receipts is our own.
pub fn unsafe_settings(topology: &Topology, captured: &[&str], receipts_queue: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let dead_letter: BTreeSet<String> =
        discover(topology, captured).into_iter().map(|found| found.name).collect();
    for queue in captured.iter().filter_map(|name| topology.queue(name)) {
        findings.extend(of_dead_letter_queue(queue));
    }
    let mut without = Vec::new();
    for queue in &topology.queues {
        let is_captured = captured.contains(&queue.name.as_str()) || dead_letter.contains(&queue.name);
        let is_own = queue.name == receipts_queue;
        if is_captured
            || is_own
            || queue.exclusive
            || topology.is_delay(queue)
            || queue.queue_type == "stream"
        {
            continue;
        }
        match topology.dead_letters_to(queue) {
            Some(reached) => findings.extend(of_work_queue(topology, queue, &reached)),
            // A worker that publishes dead letters itself has delay queues that lead back.
            None if has_delays(topology, queue) => {}
            None => without.push(queue.name.as_str()),
        }
    }
    if !without.is_empty() {
        findings.push(Finding::warning(
            format!(
                "no dead-letter exchange: messages that are rejected or expire in {} are lost",
                named(&without)
            ),
            "set dead-letter-exchange and dead-letter-routing-key by a policy, or use the worker library",
        ));
    }
    findings
}

fn has_delays(topology: &Topology, queue: &QueueInfo) -> bool {
    let leads_back = |other: &QueueInfo| {
        topology.is_delay(other) && topology.dead_letters_to(other).is_some_and(|to| to.contains(&queue.name))
    };
    topology.queues.iter().any(leads_back)
}

/// A queue that keeps dead letters until they are captured.
fn of_dead_letter_queue(queue: &QueueInfo) -> Vec<Finding> {
    let name = &queue.name;
    let mut findings = Vec::new();
    if !queue.durable || queue.auto_delete || queue.exclusive {
        findings.push(Finding::error(
            format!("dead-letter queue {name} does not outlive its consumer or a restart"),
            "declare it durable, and neither auto-delete nor exclusive",
        ));
    }
    let is_bounded = queue.setting("max-length").is_some() || queue.setting("max-length-bytes").is_some();
    if is_bounded && drops_head(queue) {
        findings.push(Finding::error(
            format!("dead-letter queue {name} drops its oldest messages when it is full (drop-head)"),
            "set overflow to reject-publish, or remove max-length",
        ));
    }
    if let Some(ttl) = queue.setting("message-ttl").and_then(Value::as_u64)
        && queue.text("dead-letter-exchange").is_none()
    {
        findings.push(Finding::error(
            format!("dead-letter queue {name} deletes messages after {ttl} ms (message-ttl)"),
            "remove message-ttl: Lazaret keeps letters by its own retention",
        ));
    }
    findings.extend(mirrored(queue));
    findings
}

/// A queue that dead-letters what fails.
fn of_work_queue(topology: &Topology, queue: &QueueInfo, reached: &BTreeSet<String>) -> Vec<Finding> {
    let name = &queue.name;
    let exchange = queue.text("dead-letter-exchange").unwrap_or_default();
    let mut findings = Vec::new();
    let exists = exchange.is_empty() || topology.exchanges.iter().any(|known| known.name == exchange);
    if !exists {
        findings.push(Finding::error(
            format!("queue {name} dead-letters to exchange {exchange}, which does not exist: its messages are lost"),
            format!("declare exchange {exchange} and bind a queue to it"),
        ));
    } else if reached.is_empty() {
        findings.push(Finding::error(
            format!(
                "queue {name} dead-letters to exchange {exchange:?}, which no queue is bound to for its key"
            ),
            "bind a queue to it, or set dead-letter-routing-key",
        ));
    }
    match queue.queue_type.as_str() {
        "quorum" => {
            if queue.text("dead-letter-strategy") != Some("at-least-once") {
                findings.push(Finding::warning(
                    format!("queue {name} dead-letters at most once: a message can be lost on its way"),
                    "set dead-letter-strategy to at-least-once and overflow to reject-publish",
                ));
            } else if drops_head(queue) {
                findings.push(Finding::warning(
                    format!("queue {name} falls back to dead-lettering at most once, because its overflow is drop-head"),
                    "set overflow to reject-publish",
                ));
            }
            if queue.setting("delivery-limit").is_none() {
                findings.push(Finding::warning(
                    format!("queue {name} has no delivery limit: a poison message may be delivered for ever"),
                    "set delivery-limit by a policy (RabbitMQ 4 sets 20 by itself)",
                ));
            }
        }
        _ => findings.push(Finding::warning(
            format!("classic queue {name} dead-letters at most once and has no delivery limit"),
            "use a quorum queue with delivery-limit and dead-letter-strategy at-least-once",
        )),
    }
    findings.extend(mirrored(queue));
    findings
}

fn drops_head(queue: &QueueInfo) -> bool {
    !queue.text("overflow").is_some_and(|overflow| overflow.starts_with("reject-publish"))
}

fn mirrored(queue: &QueueInfo) -> Option<Finding> {
    queue.text("ha-mode")?;
    Some(Finding::warning(
        format!("queue {} is a classic mirrored queue, which loses messages in a partition", queue.name),
        "use a quorum queue; RabbitMQ 4 has no mirrored queues",
    ))
}

fn named(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `*` stands for one word, `#` for any number of words.
fn topic_matches(pattern: &str, key: &str) -> bool {
    fn words(text: &str) -> Vec<&str> {
        if text.is_empty() { Vec::new() } else { text.split('.').collect() }
    }
    let (pattern, key) = (words(pattern), words(key));
    // `fits[i]`: the pattern so far matches the first `i` words.
    let mut fits: Vec<bool> = std::iter::once(true).chain(key.iter().map(|_| false)).collect();
    for word in pattern {
        let mut next = vec![false; fits.len()];
        for at in 0..fits.len() {
            next[at] = match word {
                "#" => fits[at] || (at > 0 && next[at - 1]),
                "*" => at > 0 && fits[at - 1],
                word => at > 0 && fits[at - 1] && key[at - 1] == word,
            };
        }
        fits = next;
    }
    fits.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Level;

    fn topology(queues: Value) -> Topology {
        Topology {
            queues: serde_json::from_value(queues).unwrap(),
            exchanges: serde_json::from_value(json!([
                {"name": "", "type": "direct"}, {"name": "dlx", "type": "topic"}, {"name": "all", "type": "fanout"}
            ]))
            .unwrap(),
            bindings: serde_json::from_value(json!([
                {"source": "dlx", "destination": "orders-dead", "destination_type": "queue", "routing_key": "orders.#"},
                {"source": "all", "destination": "dlx", "destination_type": "exchange", "routing_key": ""},
                {"source": "all", "destination": "audit", "destination_type": "queue", "routing_key": ""}
            ]))
            .unwrap(),
        }
    }

    fn work_queue(name: &str, arguments: Value) -> Value {
        json!({"name": name, "type": "quorum", "durable": true, "consumers": 1, "arguments": arguments,
               "effective_policy_definition": []})
    }

    fn safe() -> Value {
        work_queue(
            "orders",
            json!({"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "orders.dead",
                   "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-delivery-limit": 5}),
        )
    }

    fn dead() -> Value {
        json!({"name": "orders-dead", "type": "quorum", "durable": true, "messages": 7, "arguments": {},
               "message_stats": {"publish_details": {"rate": 0.4}}})
    }

    fn found(queues: Value) -> Vec<String> {
        unsafe_settings(&topology(queues), &["orders-dead"], "receipts")
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn topics_match_by_word() {
        for (pattern, key, expected) in [
            ("#", "", true),
            ("#", "a.b", true),
            ("*", "", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.#", "a", true),
            ("#.c", "a.b.c", true),
            ("a.#.c", "a.c", true),
            ("a.#.c", "a.b", false),
        ] {
            assert_eq!(topic_matches(pattern, key), expected, "{pattern} {key}");
        }
    }

    #[test]
    fn messages_are_followed_through_exchanges() {
        let topology = topology(json!([safe(), dead(), {"name": "audit"}]));
        let reached =
            |exchange: &str, key: &str| topology.reached(exchange, key).into_iter().collect::<Vec<_>>();
        assert_eq!(reached("all", "orders.new"), ["audit", "orders-dead"]);
        assert_eq!(reached("all", "bills.new"), ["audit"]);
        assert_eq!(reached("", "orders"), ["orders"]);
        assert!(reached("", "nothing").is_empty() && reached("gone", "orders").is_empty());
    }

    #[test]
    fn dead_letter_queues_are_found_by_who_feeds_them_and_by_name() {
        let delay = json!({"name": "orders-retry-1", "arguments": {"x-message-ttl": 2000, "x-dead-letter-exchange": "",
                           "x-dead-letter-routing-key": "orders"}});
        let queues = json!([safe(), dead(), delay, {"name": "bills-dlq", "messages": 9}, {"name": "error"}]);
        let found = discover(&topology(queues), &["orders-dead"]);
        let names: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.fed_by.join(","))).collect();
        let expected = [("bills-dlq", ""), ("orders-dead", "orders"), ("error", "")];
        assert_eq!(names, expected.map(|(queue, fed_by)| (queue, fed_by.to_owned())));
        assert_eq!((found[1].depth, found[1].publish_rate, found[1].is_captured), (Some(7), 0.4, true));
    }

    #[test]
    fn a_safe_topology_has_no_findings() {
        assert_eq!(found(json!([safe(), dead(), work_queue("receipts", json!({}))])), Vec::<String>::new());
    }

    #[test]
    fn what_loses_messages_is_told() {
        let changed = |name: &str, value: Value| {
            let mut queue = safe();
            match value {
                Value::Null => drop(queue["arguments"].as_object_mut().unwrap().remove(name)),
                value => queue["arguments"][name] = value,
            }
            found(json!([queue, dead()]))
        };
        for (name, value, expected) in [
            ("x-dead-letter-exchange", json!("gone"), "does not exist"),
            ("x-dead-letter-routing-key", json!("bills"), "no queue is bound"),
            ("x-dead-letter-strategy", Value::Null, "at most once"),
            ("x-overflow", Value::Null, "drop-head"),
            ("x-delivery-limit", Value::Null, "no delivery limit"),
            ("x-dead-letter-exchange", Value::Null, "no dead-letter exchange"),
        ] {
            let found = changed(name, value);
            assert!(found.iter().any(|what| what.contains(expected)), "{name}: {found:?}");
        }
        let classic = json!({"name": "orders", "type": "classic", "arguments": {"x-dead-letter-exchange": "dlx"},
                             "effective_policy_definition": {"ha-mode": "all"}});
        let of_classic = found(json!([classic, dead()]));
        assert!(of_classic.iter().any(|what| what.contains("classic queue orders")), "{of_classic:?}");
        assert!(of_classic.iter().any(|what| what.contains("mirrored")), "{of_classic:?}");
    }

    #[test]
    fn a_dead_letter_queue_that_forgets_is_an_error() {
        for (arguments, expected) in
            [(json!({"x-max-length": 1000}), "drop-head"), (json!({"x-message-ttl": 1000}), "message-ttl")]
        {
            let queue = json!({"name": "orders-dead", "durable": true, "arguments": arguments});
            let findings = unsafe_settings(&topology(json!([safe(), queue])), &["orders-dead"], "receipts");
            let is_error =
                |finding: &Finding| finding.level == Level::Error && finding.what.contains(expected);
            assert!(findings.iter().any(is_error), "{findings:?}");
        }
        let transient = json!({"name": "orders-dead", "durable": false});
        assert!(found(json!([safe(), transient])).iter().any(|what| what.contains("restart")));
    }

    #[test]
    fn a_queue_of_the_worker_library_needs_no_dead_letter_exchange() {
        let delay = json!({"name": "bills.retry", "arguments": {"x-message-ttl": 2000, "x-dead-letter-exchange": "",
                           "x-dead-letter-routing-key": "bills"}});
        assert_eq!(
            found(json!([safe(), dead(), work_queue("bills", json!({})), delay])),
            Vec::<String>::new()
        );
    }
}
