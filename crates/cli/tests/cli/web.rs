//! What journeys through the dashboard begin with: a server or the demo, and a person in front of it.

use lazaret_browser::browser::{Browser, Key};
use lazaret_browser::locator::Locator;
use lazaret_browser::look::{Device, Look, Scheme, Scripts};

use crate::running::{Desk, Server, entry};

/// The demo, to which nothing is added while it is looked at.
pub fn demo() -> Server {
    Server::start_as(Desk::new(), &["demo", "--listen", "127.0.0.1:0", "--still", "--seed", "7"])
}

/// Reports so many letters of one type, which die of the same.
pub fn report(server: &Server, letter_type: &str, letters: usize) {
    let lines: Vec<String> =
        (0..letters).map(|n| entry(&format!("{letter_type}-{n}"), letter_type)).collect();
    server.run_with_input(&["report", "--ndjson"], lines.join("\n").as_bytes()).ok();
}

/// A browser at a page of this server.
#[track_caller]
pub fn at(server: &Server, address: &str, look: Look) -> Browser {
    let browser = Browser::start(&server.url, look);
    browser.goto(address);
    browser
}

/// Looks at the page in both themes: nothing may break a rule of accessibility. No rule is switched off.
#[track_caller]
pub fn check_accessibility(browser: &Browser) {
    for scheme in Scheme::BOTH {
        browser.wear(scheme);
        let violations = browser.violations();
        let theme = scheme.name();
        assert!(violations.is_empty(), "{} in {theme}:\n{}", browser.address(), violations.join("\n"));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hands {
    Mouse,
    /// The keyboard alone: whatever is used has to be reached with it, and has to be seen to be reached.
    Keys,
}

/// Somebody who goes the same way with other means.
pub struct Visitor {
    pub browser: Browser,
    hands: Hands,
    look: Look,
}

impl Visitor {
    #[track_caller]
    pub fn at(server: &Server, address: &str, look: Look, hands: Hands) -> Visitor {
        Visitor { browser: at(server, address, look), hands, look }
    }

    /// Sees a text on a page that fits its window.
    #[track_caller]
    pub fn sees(&self, text: &str) {
        self.browser.see(text);
        if self.look.device == Device::Phone {
            let over = self.browser.overhang();
            assert_eq!(over, 0, "{} is wider than a phone", self.browser.address());
        }
    }

    /// Sees in the end what the server has still to do: scripts show it by themselves, without them one looks again.
    #[track_caller]
    pub fn awaits(&self, text: &str) {
        if self.look.scripts == Scripts::Off {
            let address = self.browser.address();
            self.browser.wait(text, || {
                self.browser.goto(&address);
                self.browser.shows(text).then_some(())
            });
        }
        self.sees(text);
    }

    #[track_caller]
    pub fn press(&self, at: &Locator) {
        match self.hands {
            Hands::Mouse => self.browser.click(at),
            Hands::Keys => {
                self.browser.tab_to(at);
                self.browser.press(Key::Enter);
            }
        }
    }

    #[track_caller]
    pub fn fill(&self, at: &Locator, text: &str) {
        match self.hands {
            Hands::Mouse => self.browser.fill(at, text),
            Hands::Keys => {
                self.browser.tab_to(at);
                self.browser.strike(text);
            }
        }
        assert_eq!(self.browser.value(at), text);
    }

    /// Chooses what a list offers; a keyboard does it by the beginning of the word.
    #[track_caller]
    pub fn choose(&self, at: &Locator, option: &str) {
        match self.hands {
            Hands::Mouse => self.browser.choose(at, option),
            Hands::Keys => {
                self.browser.tab_to(at);
                self.browser.strike(option);
            }
        }
    }

    /// Picks one of some round buttons, of which the first is picked now and the wanted one is so many further.
    #[track_caller]
    pub fn pick(&self, first: &Locator, wanted: &Locator, further: usize) {
        match self.hands {
            Hands::Mouse => self.browser.click(wanted),
            Hands::Keys => {
                self.browser.tab_to(first);
                (0..further).for_each(|_| self.browser.press(Key::Down));
            }
        }
        assert_eq!(self.browser.property(wanted, "checked"), true);
    }
}
