//! A person at a browser: goes, looks, presses, types, and waits as long as it takes, but not forever.

use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::accessibility;
use crate::driver::{Driver, Refusal};
use crate::locator::Locator;
use crate::look::{self, Look, Scheme};

/// How long something is waited for that has to come, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(45);

/// Between two looks at the same page: a question costs the browser some milliseconds that it needs for the page.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// More than any page of ours has to tab over.
const TABS_MAX: usize = 400;

const FIND: &str = include_str!("find.js");

/// The name under which WebDriver passes elements about.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How much of a page is shown when something was not found on it.
const SHOWN_CHARS_MAX: usize = 3_000;

/// Keys that write nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Tab,
    Enter,
    Escape,
    Space,
    Down,
}

impl Key {
    const fn code(self) -> char {
        match self {
            Key::Tab => '\u{e004}',
            Key::Enter => '\u{e007}',
            Key::Escape => '\u{e00c}',
            Key::Space => ' ',
            Key::Down => '\u{e015}',
        }
    }
}

/// How much of a page comes into the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    Window,
    Page,
}

/// One Chromium with one window. A message of the console that tells of an error, a breach of the content security policy
/// among them, fails the test when it ends.
#[derive(Debug)]
pub struct Browser {
    driver: Driver,
    /// What addresses are relative to.
    root: String,
    forgiven: RefCell<Vec<String>>,
}

/// Scrolls an element out from under what sticks to the top, if it is there.
const SHOW: &str = "arguments[0].scrollIntoView({block: 'nearest'})";

impl Browser {
    /// Starts one; shows nothing yet.
    pub fn start(root: &str, look: Look) -> Browser {
        let driver = Driver::start(look);
        let browser = Browser {
            driver,
            root: root.trim_end_matches('/').to_owned(),
            forgiven: RefCell::new(Vec::new()),
        };
        browser.wear(look.scheme);
        // As if somebody looked at this window alone, however many there are.
        browser.driver.tool("Emulation.setFocusEmulationEnabled", &json!({"enabled": true})).unwrap();
        browser
    }

    /// Where it keeps everything of its own.
    pub fn folder(&self) -> &Path {
        self.driver.folder()
    }

    /// Changes what pages are told of the colours that are wished for.
    #[track_caller]
    pub fn wear(&self, scheme: Scheme) {
        self.driver.tool("Emulation.setEmulatedMedia", &look::media(scheme)).unwrap();
    }

    /// Changes where in the world the pages take themselves to be.
    #[track_caller]
    pub fn live_in(&self, zone: &str) {
        self.driver.tool("Emulation.setTimezoneOverride", &json!({"timezoneId": zone})).unwrap();
    }

    #[track_caller]
    pub fn goto(&self, address: &str) {
        let url = format!("{}{address}", self.root);
        // The driver may come back while the old page still stands there.
        self.run("window.isLeft = true", &json!([])).ok();
        if let Err(refusal) = self.driver.ask("POST", "url", &json!({"url": url})) {
            panic!("cannot go to {url}: {refusal}");
        }
        self.wait("another page", || {
            // A place within the same page makes no other.
            let script = "return !window.isLeft || location.hash !== ''";
            self.run(script, &json!([])).is_ok_and(|other| other == true).then_some(())
        });
        self.loaded();
    }

    /// Waits until the page and its scripts are there.
    #[track_caller]
    pub fn loaded(&self) {
        self.wait("the page", || {
            let state = self.run("return document.readyState", &json!([]));
            state.is_ok_and(|state| state == "complete").then_some(())
        });
    }

    /// Path and query of the page.
    #[track_caller]
    pub fn address(&self) -> String {
        let url = self.driver.ask("GET", "url", &Value::Null).unwrap();
        let url = url.as_str().unwrap_or_default();
        url.strip_prefix(&self.root).unwrap_or(url).to_owned()
    }

    #[track_caller]
    pub fn title(&self) -> String {
        self.driver.ask("GET", "title", &Value::Null).unwrap().as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script in the page and gives what it returns.
    #[track_caller]
    pub fn script(&self, script: &str, args: &Value) -> Value {
        match self.run(script, args) {
            Ok(value) => value,
            Err(refusal) => panic!("{refusal}\nin {}", script.chars().take(200).collect::<String>()),
        }
    }

    fn run(&self, script: &str, args: &Value) -> Result<Value, Refusal> {
        self.driver.ask("POST", "execute/sync", &json!({"script": script, "args": args}))
    }

    fn find(&self, at: &Locator) -> Result<Option<String>, Refusal> {
        let found = self.run(FIND, &json!([at.steps()]))?;
        Ok(found[ELEMENT].as_str().map(str::to_owned))
    }

    /// Looks until there is something to give; what changes under the look is looked at once more.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        self.attempt(what, || Ok(look()))
    }

    #[track_caller]
    fn attempt<T>(&self, what: &str, mut look: impl FnMut() -> Result<Option<T>, Refusal>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            let why = match look() {
                Ok(Some(found)) => return found,
                Ok(None) => "it is not there".to_owned(),
                Err(refusal) if refusal.may_pass() => refusal.to_string(),
                Err(refusal) => panic!("{what}: {refusal}"),
            };
            if Instant::now() >= until {
                self.fail(&format!("{what}: {why}"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Ends the test with what is seen.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let name = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let picture = std::env::temp_dir().join(format!("lazaret-{name}.png"));
        let taken = self.driver.tool("Page.captureScreenshot", &json!({"format": "png"}));
        let taken = taken.ok().and_then(|taken| STANDARD.decode(taken["data"].as_str()?).ok());
        let kept = match std::fs::write(&picture, taken.unwrap_or_default()) {
            Ok(()) => picture.display().to_string(),
            Err(error) => error.to_string(),
        };
        let page: String = self.page_text().chars().take(SHOWN_CHARS_MAX).collect();
        panic!("{why}\nat {} ({})\npicture: {kept}\n\n{page}", self.address(), self.title());
    }

    fn page_text(&self) -> String {
        let text = self.run("return document.body?.innerText ?? ''", &json!([]));
        text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Waits until a text is seen on the page; the case of its letters is the style sheet's.
    #[track_caller]
    pub fn see(&self, text: &str) {
        self.wait(&format!("to see \"{text}\""), || self.shows(text).then_some(()));
    }

    /// Whether a text is seen now.
    pub fn shows(&self, text: &str) -> bool {
        squeeze(&self.page_text()).contains(&squeeze(text))
    }

    /// Waits until a text is gone.
    #[track_caller]
    pub fn see_no_more(&self, text: &str) {
        self.wait(&format!("not to see \"{text}\" any more"), || (!self.shows(text)).then_some(()));
    }

    /// Waits until there is such a thing.
    #[track_caller]
    pub fn find_one(&self, at: &Locator) {
        self.attempt(&at.to_string(), || self.find(at));
    }

    /// Whether there is such a thing now.
    #[track_caller]
    pub fn has(&self, at: &Locator) -> bool {
        self.find(at).unwrap().is_some()
    }

    #[track_caller]
    pub fn click(&self, at: &Locator) {
        self.attempt(&format!("to click {at}"), || {
            let Some(element) = self.find(at)? else { return Ok(None) };
            if self.driver.ask("GET", &format!("element/{element}/enabled"), &Value::Null)? != json!(true) {
                return Ok(None);
            }
            // WebDriver takes what lies under a sticky header for visible.
            self.run(SHOW, &json!([{ELEMENT: element}]))?;
            self.driver.ask("POST", &format!("element/{element}/click"), &json!({})).map(Some)
        });
    }

    /// Whether it can be pressed or filled in.
    #[track_caller]
    pub fn is_enabled(&self, at: &Locator) -> bool {
        let enabled = self.attempt(&at.to_string(), || {
            let Some(element) = self.find(at)? else { return Ok(None) };
            self.driver.ask("GET", &format!("element/{element}/enabled"), &Value::Null).map(Some)
        });
        enabled == json!(true)
    }

    /// Types into a field, in the place of what stood there.
    #[track_caller]
    pub fn fill(&self, at: &Locator, text: &str) {
        self.attempt(&format!("to fill in {at}"), || {
            let Some(element) = self.find(at)? else { return Ok(None) };
            self.driver.ask("POST", &format!("element/{element}/clear"), &json!({}))?;
            self.driver.ask("POST", &format!("element/{element}/value"), &json!({"text": text})).map(Some)
        });
    }

    /// Chooses what a list offers, by what is written there.
    #[track_caller]
    pub fn choose(&self, at: &Locator, option: &str) {
        const SCRIPT: &str = "const wanted = arguments[1].toLowerCase();
            const options = [...arguments[0].options];
            const text = (option) => option.text.trim().toLowerCase();
            return options.find((option) => text(option) === wanted)
                ?? options.find((option) => text(option).includes(wanted)) ?? null;";
        self.attempt(&format!("to choose \"{option}\" in {at}"), || {
            let Some(element) = self.find(at)? else { return Ok(None) };
            let found = self.run(SCRIPT, &json!([{ELEMENT: element}, option]))?;
            let Some(option) = found[ELEMENT].as_str() else { return Ok(None) };
            self.driver.ask("POST", &format!("element/{option}/click"), &json!({})).map(Some)
        });
    }

    #[track_caller]
    pub fn text(&self, at: &Locator) -> String {
        self.property(at, "innerText").as_str().unwrap_or_default().to_owned()
    }

    /// What stands in a field.
    #[track_caller]
    pub fn value(&self, at: &Locator) -> String {
        self.property(at, "value").as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn property(&self, at: &Locator, name: &str) -> Value {
        self.attempt(&at.to_string(), || {
            let Some(element) = self.find(at)? else { return Ok(None) };
            self.driver.ask("GET", &format!("element/{element}/property/{name}"), &Value::Null).map(Some)
        })
    }

    #[track_caller]
    pub fn attribute(&self, at: &Locator, name: &str) -> Option<String> {
        let value = self.attempt(&at.to_string(), || {
            let Some(element) = self.find(at)? else { return Ok(None) };
            self.driver.ask("GET", &format!("element/{element}/attribute/{name}"), &Value::Null).map(Some)
        });
        value.as_str().map(str::to_owned)
    }

    /// Presses a key, wherever the focus is.
    #[track_caller]
    pub fn press(&self, key: Key) {
        self.strike(&key.code().to_string());
    }

    /// Types what is on the keys, wherever the focus is.
    #[track_caller]
    pub fn strike(&self, keys: &str) {
        self.loaded();
        self.wait("a page that can be typed into", || self.takes_keys().then_some(()));
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]});
        self.driver.ask("POST", "actions", &actions).unwrap();
    }

    /// Whether the page was painted: Chromium drops keys that are struck before.
    fn takes_keys(&self) -> bool {
        const SCRIPT: &str = "return new Promise((done) =>
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true)))))";
        self.run(SCRIPT, &json!([])).is_ok_and(|painted| painted == true)
    }

    /// How far what is shown has moved by itself since the page was loaded, as the browser counts it.
    #[track_caller]
    pub fn shift(&self) -> f64 {
        const SCRIPT: &str = "return new Promise((done) => {
            const seen = [];
            const watch = new PerformanceObserver((list) => seen.push(...list.getEntries()));
            watch.observe({ type: 'layout-shift', buffered: true });
            const end = () => done(seen.concat(watch.takeRecords())
                .filter((shift) => !shift.hadRecentInput).reduce((sum, shift) => sum + shift.value, 0));
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(end)));
        })";
        self.script(SCRIPT, &json!([])).as_f64().unwrap_or(f64::NAN)
    }

    /// Goes with the tabulator until the focus is there, where it has to be seen.
    #[track_caller]
    pub fn tab_to(&self, at: &Locator) {
        const SCRIPT: &str = "if (document.activeElement !== arguments[0]) return 'elsewhere';
            const style = getComputedStyle(arguments[0]);
            const shown = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
            return shown ? 'there' : 'hidden';";
        self.find_one(at);
        for _ in 0..TABS_MAX {
            self.press(Key::Tab);
            let Some(element) = self.find(at).unwrap() else { continue };
            let focus = self.script(SCRIPT, &json!([{ELEMENT: element}]));
            match focus.as_str() {
                Some("there") => return,
                Some("hidden") => self.fail(&format!("the focus on {at} is not seen")),
                Some(_) | None => {}
            }
        }
        self.fail(&format!("{at} cannot be reached with the keyboard"));
    }

    /// Every rule of accessibility that the page breaks.
    #[track_caller]
    pub fn violations(&self) -> Vec<String> {
        accessibility::violations(self)
    }

    /// The page as PNG.
    #[track_caller]
    pub fn picture(&self, extent: Extent) -> Vec<u8> {
        // A page that has just come has no size for a moment.
        let answer = self.attempt("a picture", || {
            let parameters = match extent {
                Extent::Window => json!({"format": "png"}),
                Extent::Page => {
                    let size =
                        self.driver.tool("Page.getLayoutMetrics", &json!({}))?["cssContentSize"].take();
                    let clip =
                        json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
                    json!({"format": "png", "captureBeyondViewport": true, "clip": clip})
                }
            };
            self.driver.tool("Page.captureScreenshot", &parameters).map(Some)
        });
        STANDARD.decode(answer["data"].as_str().expect("a picture")).expect("a picture is base64")
    }

    /// How much wider the page is than the window: nothing, or people have to push it about.
    #[track_caller]
    pub fn overhang(&self) -> i64 {
        let script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        self.script(script, &json!([])).as_i64().expect("a number")
    }

    /// Takes no offence at errors with this text: the page was meant to be refused.
    pub fn forgive(&self, text: &str) {
        self.forgiven.borrow_mut().push(text.to_owned());
    }

    /// Errors that the console told of since the last time.
    pub fn errors(&self) -> Vec<String> {
        let entries = self.driver.ask("POST", "se/log", &json!({"type": "browser"})).unwrap();
        let entries = entries.as_array().expect("a log is a list");
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        let messages = severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned());
        let forgiven = self.forgiven.borrow();
        messages.filter(|message| !forgiven.iter().any(|text| message.contains(text))).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A test that failed has told why.
        if !std::thread::panicking() {
            let errors = self.errors();
            assert!(errors.is_empty(), "the console tells of errors:\n{}", errors.join("\n"));
        }
    }
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}
