//! `lazaret tail`: what happens, as it happens.
//!
//! A connection that breaks is made again from the last event that was printed, so that nothing is missed or told twice.

mod line;
mod sse;

use std::time::Duration;

use clap::Args;

use crate::answers::event::{Event, EventPage, EventsLost, ReaderDropped};
use crate::args::filter_word;
use crate::client::streaming::Wanted;
use crate::client::{Client, ClientError};
use crate::failure::{Failure, Outcome};
use crate::filter;
use crate::output::{Format, Screen, json_text, moment};
use sse::{Message, Parser, Said};

const EXAMPLES: &str = "\
Examples:
  lazaret tail                                  new events; Ctrl-C ends
  lazaret tail queue:billing error:Timeout
  lazaret tail --kind 'dead_letter.*' --kind incident.opened
  lazaret tail --from-start --json | jq -c '[.at, .kind, .letterId]'
  lazaret tail --after 4711                     events after a position, then new events

With a filter, only events of matching letters are shown. A lost connection is restored automatically and \
resumes at the same position.";

/// Three beats of the server: a connection that is silent for longer is dead without knowing it.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// The first wait before the connection is made again; it doubles up to the longest.
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TailArgs {
    /// Filter, such as queue:billing
    #[arg(value_name = "FILTER", value_parser = filter_word)]
    pub filter: Vec<String>,

    /// Event kind, such as dead_letter.* or incident.opened; repeatable
    #[arg(long, value_name = "PATTERN")]
    kind: Vec<String>,

    /// Start with the oldest stored event
    #[arg(long, conflicts_with = "after")]
    from_start: bool,

    /// Start after this event position
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,
}

pub async fn run(args: TailArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let wanted = filter::read(&args.filter.join(" "))?.to_string();
    let mut query: Vec<(&str, &str)> = args.kind.iter().map(|kind| ("kind", kind.as_str())).collect();
    if !wanted.is_empty() {
        query.push(("q", &wanted));
    }
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(Outcome::Done)
        }
        followed = follow(&args, &query, client, screen) => followed,
    }
}

async fn follow(
    args: &TailArgs,
    query: &[(&str, &str)],
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let place = match (args.from_start, args.after) {
        (true, _) => Place::Start,
        (false, Some(position)) => Place::Behind(position),
        (false, None) => Place::Behind(newest(query, client).await?),
    };
    let mut tail = Tail { place, wait: WAIT_FIRST, met: Met::NotYet, screen };
    loop {
        let broken = match tail.listen(query, client).await? {
            Ended::ReaderGone => return Ok(Outcome::Done),
            Ended::Broken(why) => why,
        };
        let seconds = tail.wait.as_secs();
        tail.screen.note(&format!("{broken}; retrying in {seconds} s"));
        tokio::time::sleep(tail.wait).await;
        tail.wait = (tail.wait * 2).min(WAIT_MAX);
    }
}

/// Where the events stand now. Asked first, so that what happens while a first connection breaks is not missed.
async fn newest(query: &[(&str, &str)], client: &Client) -> anyhow::Result<u64> {
    let query = [query, &[("limit", "1")]].concat();
    let page: EventPage = client.poll(&["events"], &query).await?.read()?;
    Ok(page.next)
}

/// How one connection ended.
#[derive(Debug)]
enum Ended {
    ReaderGone,
    Broken(String),
}

/// Whether the server has ever answered: before that, a wrong address is more likely than a server that is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    NotYet,
    Before,
}

/// Where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// With the oldest event that is kept, whichever that is.
    Start,
    /// Behind the last event that was told or left out.
    Behind(u64),
}

/// Events being followed.
#[derive(Debug)]
struct Tail<'a> {
    place: Place,
    /// How long to wait when the connection breaks next.
    wait: Duration,
    met: Met,
    screen: &'a mut Screen,
}

impl Tail<'_> {
    /// Tells events until the connection breaks. What another try would not change is an error.
    async fn listen(&mut self, query: &[(&str, &str)], client: &Client) -> anyhow::Result<Ended> {
        let mut query = query.to_vec();
        let (last_event, whence) = match self.place {
            Place::Start => {
                query.push(("after", "0"));
                (None, "from the oldest stored event".into())
            }
            Place::Behind(position) => (Some(position.to_string()), format!("after event {position}")),
        };
        let wanted = Wanted { media_type: "text/event-stream", last_event: last_event.as_deref() };
        let mut stream = match client.stream(&["events"], &query, wanted).await {
            Ok(stream) => stream,
            Err(error) if self.met == Met::Before && passes(&error) => {
                return Ok(Ended::Broken(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        self.met = Met::Before;
        self.screen.note(&format!("following {whence}; Ctrl-C ends"));
        let mut parser = Parser::default();
        loop {
            let bytes = match stream.next(SILENCE_MAX).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(Ended::Broken("the server ended the stream".into())),
                Err(error) => return Ok(Ended::Broken(error.to_string())),
            };
            self.wait = WAIT_FIRST;
            for said in parser.take(&bytes) {
                self.tell(said)?;
            }
            // Places move without events too, past what a filter leaves out.
            if let Some(place) = parser.place().and_then(|place| place.parse().ok()) {
                self.place = Place::Behind(place);
            }
            if self.screen.is_reader_gone() {
                return Ok(Ended::ReaderGone);
            }
        }
    }

    fn tell(&mut self, said: Said) -> anyhow::Result<()> {
        let message = match said {
            Said::Event(message) => message,
            Said::TooLong => {
                self.screen.note("event skipped: too long");
                return Ok(());
            }
        };
        match message.event.as_str() {
            "lost" => self.tell_lost(&read(&message)?),
            "dropped" => {
                let dropped: ReaderDropped = read(&message)?;
                self.screen.note(&format!("disconnected by the server: {}", dropped.reason));
            }
            _ => {
                let event: Event = read(&message)?;
                match self.screen.format {
                    Format::Json => self.screen.line(&json_text::on_one_line(&message.data))?,
                    Format::Text => self.screen.line(&line::line(&event, self.screen))?,
                }
            }
        }
        Ok(())
    }

    fn tell_lost(&mut self, lost: &EventsLost) {
        let missing = lost.oldest.saturating_sub(lost.asked).saturating_sub(1);
        let told = match missing {
            // The place is ahead of what is kept: what lies between is not known to anybody.
            0 => format!("{}; continuing with the oldest stored event", lost.reason),
            1 => format!("1 event lost: {}", lost.reason),
            several => format!("{} events lost: {}", moment::count(several), lost.reason),
        };
        self.screen.note(&told);
    }
}

fn read<T: serde::de::DeserializeOwned>(message: &Message) -> Result<T, Failure> {
    serde_json::from_str(&message.data).map_err(|_| {
        Failure::failed("unexpected event from the server")
            .hint("is --url (LAZARET_URL) the address of a Lazaret server of this version?")
    })
}

/// Whether another try may find what this one did not.
fn passes(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::Lost { .. }
        | ClientError::Silent { .. }
        | ClientError::Foreign { .. } => true,
        ClientError::Refused(problem) => {
            problem.status.is_server_error() || problem.status == reqwest::StatusCode::TOO_MANY_REQUESTS
        }
    }
}
