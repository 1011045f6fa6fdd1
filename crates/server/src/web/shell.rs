//! What stands around every page: the rail, the banner, the notice, the title that tells the state.

use std::sync::Arc;

use lazaret_core::incident::IncidentState;
use lazaret_core::time::Time;

use super::mood;
use super::viewer::{Theme, Viewer};
use crate::alerts::checks::Level;
use crate::api::problem::Problem;
use crate::app::App;

/// A place in the rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub name: &'static str,
    pub address: &'static str,
    /// The key that goes there after `g`.
    pub key: &'static str,
    /// The shape of its sign: what `d` of a path says in a square of 24.
    pub sign: &'static str,
}

/// Every place of the rail, in order.
pub(crate) const PLACES: [Place; 11] = [
    Place {
        name: "Overview",
        address: "/",
        key: "o",
        sign: "M4 13h6V4H4v9Zm0 7h6v-4H4v4Zm10 0h6v-9h-6v9Zm0-16v4h6V4h-6Z",
    },
    Place {
        name: "Incidents",
        address: "/incidents",
        key: "i",
        sign: "M12 3 2.5 20h19L12 3Zm0 6v5m0 2.5v.5",
    },
    Place { name: "Letters", address: "/letters", key: "l", sign: "M3 6h18v12H3V6Zm0 1 9 7 9-7" },
    Place {
        name: "Redrives",
        address: "/redrives",
        key: "r",
        sign: "M4 12a8 8 0 0 1 13.7-5.6L20 9m0-5v5h-5M20 12a8 8 0 0 1-13.7 5.6L4 15m0 5v-5h5",
    },
    Place {
        name: "Jobs",
        address: "/jobs",
        key: "j",
        sign: "M4 5h16v4H4V5Zm0 5.5h16v4H4v-4ZM4 16h16v4H4v-4Z",
    },
    Place {
        name: "Rules",
        address: "/rules",
        key: "u",
        sign: "M4 7h10m4 0h2M4 12h2m4 0h10M4 17h8m4 0h4M14 5v4M6 10v4m6 1v4",
    },
    Place {
        name: "Sources",
        address: "/sources",
        key: "s",
        sign: "M12 4c4.4 0 8 1.3 8 3s-3.6 3-8 3-8-1.3-8-3 3.6-3 8-3Zm-8 3v10c0 1.7 3.6 3 8 3s8-1.3 8-3V7M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3",
    },
    Place { name: "Archive", address: "/archive", key: "a", sign: "M3 5h18v4H3V5Zm1.5 4v10h15V9M10 13h4" },
    Place {
        name: "Alerts",
        address: "/alerts",
        key: "t",
        sign: "M6 17V11a6 6 0 0 1 12 0v6l1.5 2h-15L6 17Zm4 4h4",
    },
    Place { name: "Audit", address: "/audit", key: "d", sign: "M6 3h9l4 4v14H6V3Zm3 8h7m-7 4h7M9 7h3" },
    Place {
        name: "Settings",
        address: "/settings",
        key: "e",
        sign: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6Zm0-6v3m0 12v3M3 12h3m12 0h3M5.6 5.6l2.1 2.1m8.6 8.6 2.1 2.1m0-12.8-2.1 2.1m-8.6 8.6-2.1 2.1",
    },
];

/// The states in which an incident waits for a person.
pub(crate) const UNSETTLED: [IncidentState; 6] = [
    IncidentState::Open,
    IncidentState::Diagnosed,
    IncidentState::Fixed,
    IncidentState::Redriving,
    IncidentState::Verifying,
    IncidentState::Regressed,
];

/// A problem that a page shows at its top, above what was typed.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub text: String,
    pub hint: Option<String>,
    pub field: Option<String>,
}

impl From<&Problem> for Trouble {
    fn from(problem: &Problem) -> Trouble {
        Trouble {
            text: problem.text().to_owned(),
            hint: problem.advice().map(str::to_owned),
            field: problem.field().map(str::to_owned),
        }
    }
}

/// What the layout needs; every page has one.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    /// The name of the page, without ours.
    pub title: String,
    /// The address of the place in the rail that the page belongs to.
    pub place: &'static str,
    pub now: Time,
    pub csrf: String,
    pub theme: Theme,
    pub open: bool,
    pub test_mode: bool,
    pub who: String,
    pub role: &'static str,
    pub notice: Option<String>,
    pub trouble: Option<Trouble>,
    /// Incidents that are not closed.
    pub incidents: u64,
    /// Those among them that came back after their fix.
    pub regressed: u64,
    /// The worst that is wrong besides.
    pub worst: Option<Level>,
}

impl Shell {
    /// Makes the frame of a page; `place` is an address of the rail.
    pub async fn new(
        app: &Arc<App>,
        viewer: &Viewer,
        title: impl Into<String>,
        place: &'static str,
    ) -> Result<Shell, Problem> {
        let counts = app.store.incident_counts().await?;
        let worst = mood::worst(app).await;
        let count = |state: &IncidentState| counts.get(state).copied().unwrap_or(0);
        Ok(Shell {
            title: title.into(),
            place,
            now: app.clock.now(),
            csrf: viewer.csrf.clone(),
            theme: viewer.theme,
            open: viewer.open,
            test_mode: app.test_mode,
            who: viewer.caller.name.clone(),
            role: viewer.caller.role.name(),
            notice: viewer.notice.clone(),
            trouble: None,
            incidents: UNSETTLED.iter().map(count).sum(),
            regressed: count(&IncidentState::Regressed),
            worst,
        })
    }

    /// The same with a problem at the top.
    pub fn with(mut self, problem: Option<&Problem>) -> Shell {
        self.trouble = problem.map(Trouble::from);
        self
    }

    /// calm, busy or bad: what the icon of the tab shows.
    pub fn mood(&self) -> &'static str {
        match (self.regressed, self.worst, self.incidents) {
            (1.., _, _) | (_, Some(Level::Critical), _) => "bad",
            (0, Some(Level::Warning), _) | (0, None, 1..) => "busy",
            (0, None, 0) => "calm",
        }
    }

    /// The picture of that.
    pub fn icon(&self) -> &'static str {
        match self.mood() {
            "calm" => "icon-calm.svg",
            "busy" => "icon-busy.svg",
            _ => "icon-bad.svg",
        }
    }

    pub fn places(&self) -> &'static [Place] {
        &PLACES
    }

    pub fn place_name(&self) -> &'static str {
        PLACES.iter().find(|place| place.address == self.place).map_or("Lazaret", |place| place.name)
    }

    pub fn asset(&self, name: &str) -> &'static str {
        super::assets::address(name)
    }
}
