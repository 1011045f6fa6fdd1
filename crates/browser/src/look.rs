//! What a browser looks like to a page: its size, its colours, whether it runs scripts.

use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub const BOTH: [Scheme; 2] = [Scheme::Light, Scheme::Dark];

    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    Desk,
    Phone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scripts {
    On,
    Off,
}

/// How a browser is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    pub device: Device,
    pub scheme: Scheme,
    pub scripts: Scripts,
}

impl Look {
    /// A desk, light, with scripts.
    pub const DESK: Look = Look { device: Device::Desk, scheme: Scheme::Light, scripts: Scripts::On };
    /// 360 by 780, touched and not clicked.
    pub const PHONE: Look = Look { device: Device::Phone, ..Look::DESK };
    pub const WITHOUT_SCRIPTS: Look = Look { scripts: Scripts::Off, ..Look::DESK };

    /// What `chromedriver` needs to know to start it with this profile folder.
    pub(crate) fn capabilities(self, profile: &str) -> Value {
        let args = [
            "--headless=new",
            // Its sandbox does not work as root and not in many containers; it sees our own pages only.
            "--no-sandbox",
            // A container's shared memory is often too small.
            "--disable-dev-shm-usage",
            // Ends when chromedriver ends, however that happens.
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--font-render-hinting=none",
            "--lang=en-GB",
            &format!("--user-data-dir={profile}"),
        ]
        .map(str::to_owned);
        let metrics = match self.device {
            Device::Desk => {
                json!({"width": 1280, "height": 900, "pixelRatio": 1.0, "touch": false, "mobile": false})
            }
            Device::Phone => {
                json!({"width": 360, "height": 780, "pixelRatio": 2.0, "touch": true, "mobile": true})
            }
        };
        let scripts = match self.scripts {
            Scripts::On => 1,
            Scripts::Off => 2,
        };
        json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "timeouts": {"script": 30_000, "pageLoad": 60_000, "implicit": 0},
            // A dialog that no test asked for is a fault: the next command says so.
            "unhandledPromptBehavior": "dismiss and notify",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {
                "args": args,
                "mobileEmulation": {"deviceMetrics": metrics},
                "prefs": {"profile.managed_default_content_settings.javascript": scripts},
            },
        }}})
    }
}

/// What pages ask with media queries. Motion is always reduced: a colour on its way to another one is no colour to measure.
pub(crate) fn media(scheme: Scheme) -> Value {
    json!({"features": [
        {"name": "prefers-color-scheme", "value": scheme.name()},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]})
}
