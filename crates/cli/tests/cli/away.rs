//! The database goes away under load, as in a restart and as in a crash, and comes back; and it goes for good while a
//! standby takes over. Nothing that was acknowledged is lost, and nobody has to do anything.
//!
//! `LAZARET_TORTURE_ROUNDS` and `LAZARET_TORTURE_SEED` make it longer or repeat it; `cargo xtask torture` sets them.

use lazaret_store::testing::own::{OwnServer, Stop, wait_until};

use crate::doors::{Database, Doors};
use crate::load;
use crate::many::beside;
use crate::race::{Race, verify};
use crate::running::entry;
use crate::torture::{Random, Server, call, call_whole, setting};

const SERVERS: usize = 2;
const WORKERS: u64 = 8;
const REPORTERS: usize = 2;

/// What the workers do together between two stops, and before and after a standby takes over.
const STEPS_PER_STOP: u64 = 80;
const STEPS_PER_FAILOVER: u64 = 400;

/// Says that it cannot store anything, and when to come again; and that it lives.
fn is_away(server: &Server) {
    let (status, told) = call(&server.address, "GET", "/health/ready", "", "").expect("it is up");
    assert_eq!(status, 503, "{told}");
    let lost = entry("while-away", "order.created");
    for (path, body) in
        [("/api/v1/dead-letters", lost.as_str()), ("/ojs/v1/jobs", r#"{"type":"mail.send","args":[]}"#)]
    {
        let (head, told) =
            call_whole(&server.address, "POST", path, "application/json", body).expect("it is up");
        assert!(head.starts_with("http/1.1 503 ") && head.contains("\r\nretry-after: "), "{head} {told}");
    }
    let (status, told) = call(&server.address, "GET", "/health/live", "", "").expect("it is up");
    assert_eq!(status, 200, "{told}");
}

fn is_ready(server: &Server) -> bool {
    call(&server.address, "GET", "/health/ready", "", "").is_some_and(|(status, _)| status == 200)
}

/// Lets the load run on a store whose database `fault` breaks and mends so many times, each after so many steps; then
/// compares.
fn survive(store: &str, faults: u64, steps: u64, mut fault: impl FnMut(u64, &[Server])) {
    let seed = setting("LAZARET_TORTURE_SEED", 42);
    let mut random = Random(seed);
    let servers: Vec<Server> = (0..SERVERS).map(|_| Server::start_on(store)).collect();
    let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    let doors = Doors::new(&addresses, Database::Here);
    let race = Race::new(&doors, steps * (faults + 1));
    let reported = beside(&doors, REPORTERS, &mut random.clone(), || {
        race.run(WORKERS, &mut random, |done| {
            if done % steps == 0 && done / steps <= faults {
                doors.tell_of_database(Database::Away);
                fault(done / steps - 1, &servers);
                for server in &servers {
                    wait_until("the server is ready again by itself", || is_ready(server));
                }
                doors.tell_of_database(Database::Here);
            }
        });
    });
    let address = &servers[0].address;
    verify::drain(address, &race.accounts);
    let jobs = verify::verify(address, &race.accounts);
    let letters = load::verify(address, &reported);
    load::recount(address);
    println!("{faults} faults, seed {seed}: {jobs}; {letters}");
}

#[test]
fn nothing_is_lost_when_the_database_is_stopped_and_started_again() {
    let stops = (setting("LAZARET_TORTURE_ROUNDS", 0) / 5).max(10);
    let database = OwnServer::start();
    survive(&database.url(), stops, STEPS_PER_STOP, |stop, servers| {
        database.stop(if stop % 2 == 0 { Stop::Immediate } else { Stop::Fast });
        servers.iter().for_each(is_away);
        database.start_again();
    });
}

#[test]
fn nothing_is_lost_when_the_database_is_gone_and_its_standby_takes_over() {
    let primary = OwnServer::start();
    let standby = OwnServer::standby_of(&primary);
    let store = format!(
        "postgres://postgres@{},{}/lazaret?target_session_attrs=read-write",
        primary.host(),
        standby.host()
    );
    survive(&store, 1, STEPS_PER_FAILOVER, |_, servers| {
        primary.stop(Stop::Immediate);
        servers.iter().for_each(is_away);
        standby.promote();
    });
}
