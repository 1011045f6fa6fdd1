//! Several servers on one database, of which one is killed every few moments while workers race for jobs and reporters
//! report: nothing that was acknowledged is lost, no job is held by two workers at once, no dead letter is put back twice
//! at once, everything is accounted for, and the periodic work moves to another server.
//!
//! `LAZARET_TORTURE_ROUNDS` and `LAZARET_TORTURE_SEED` make it longer or repeat it; `cargo xtask torture` sets them.

use std::sync::atomic::{AtomicBool, Ordering};

use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::own::wait_until;

use crate::doors::{Database, Doors};
use crate::load::{self, Reported};
use crate::race::{Race, verify};
use crate::torture::{Random, Server, call, setting};

const SERVERS: usize = 3;
const WORKERS: u64 = 12;
const REPORTERS: usize = 2;

/// What the workers do together between two kills.
const STEPS_PER_KILL: u64 = 300;

#[test]
fn nothing_is_lost_or_done_twice_when_one_of_several_servers_is_killed() {
    // One for every seven of the other torture: a minute of kills in a whole run.
    let kills = (setting("LAZARET_TORTURE_ROUNDS", 0) / 7).max(4);
    let seed = setting("LAZARET_TORTURE_SEED", 42);
    let mut random = Random(seed);
    let database = TestDatabase::bare();
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| Server::start_on(&database.url())).collect();
    let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    let doors = Doors::new(&addresses, Database::Sure);
    let killed: Vec<u64> =
        (1..=kills).map(|kill| STEPS_PER_KILL * kill - random.below(STEPS_PER_KILL / 2)).collect();
    let race = Race::new(&doors, STEPS_PER_KILL * (kills + 1));
    let mut moves = 0;
    let reported = beside(&doors, REPORTERS, &mut random.clone(), || {
        race.run(WORKERS, &mut random, |done| {
            if killed.contains(&done) {
                let leader = leader(&servers);
                // The one who leads every other time, so that the periodic work has to move.
                let victim = if moves % 2 == 0 { leader } else { (leader + 1 + moves) % SERVERS };
                servers[victim].kill();
                let others: Vec<usize> = (0..SERVERS).filter(|number| *number != victim).collect();
                wait_until("somebody else leads", || others.iter().any(|number| leads(&servers[*number])));
                moves += 1;
                servers[victim] = Server::start_on(&database.url());
                doors.open(victim, &servers[victim].address);
            }
        });
    });
    let address = &servers[0].address;
    verify::drain(address, &race.accounts);
    let jobs = verify::verify(address, &race.accounts);
    let letters = load::verify(address, &reported);
    load::recount(address);
    assert_eq!(moves as u64, kills);
    println!("{kills} kills, seed {seed}: {jobs}; {letters}");
}

/// Lets reporters report while something else is done.
pub fn beside(doors: &Doors, reporters: usize, random: &mut Random, work: impl FnOnce()) -> Vec<Reported> {
    let stop = AtomicBool::new(false);
    let seeds: Vec<u64> = (0..reporters).map(|_| random.next()).collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = seeds
            .into_iter()
            .enumerate()
            .map(|(number, seed)| {
                let stop = &stop;
                scope.spawn(move || load::report_until(stop, doors, number, Random(seed)))
            })
            .collect();
        // Told to stop however the work ends, or the scope would wait for them for ever.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::SeqCst);
        let reported = running.into_iter().map(|one| one.join().unwrap()).collect();
        ended.unwrap_or_else(|broken| std::panic::resume_unwind(broken));
        reported
    })
}

/// Whether a server says that it does the periodic work.
fn leads(server: &Server) -> bool {
    let (status, told) = call(&server.address, "GET", "/health/ready", "", "").expect("it is up");
    assert_eq!(status, 200, "{told}");
    told["leads"].as_bool().unwrap()
}

/// The one who leads; never two at once.
fn leader(servers: &[Server]) -> usize {
    let mut found = None;
    wait_until("somebody leads", || {
        let leading: Vec<usize> = (0..servers.len()).filter(|number| leads(&servers[*number])).collect();
        assert!(leading.len() <= 1, "{leading:?} lead at once");
        found = leading.first().copied();
        found.is_some()
    });
    found.unwrap()
}
