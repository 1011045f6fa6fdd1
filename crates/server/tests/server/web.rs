//! Pages as a browser without JavaScript sees them: cookies are kept, forms are sent with what stands in them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::body::Body;
use http::{HeaderMap, Method, header};

use super::rig::{Answer, TestApp};

/// A browser reduced to what these tests need of one.
#[derive(Debug, Default)]
pub struct Browser {
    cookies: Mutex<BTreeMap<String, String>>,
}

impl Browser {
    /// Asks for a page.
    pub async fn get(&self, app: &TestApp, path: &str) -> Answer {
        let request = app.request(Method::GET, path, Body::empty());
        self.send(app, request).await
    }

    /// The text of a page that must be there.
    #[track_caller]
    pub fn text(answer: &Answer) -> String {
        String::from_utf8(answer.bytes.clone()).unwrap()
    }

    /// Loads the page at `page`, takes the proof out of it, and sends a form with these fields.
    pub async fn submit(&self, app: &TestApp, page: &str, action: &str, fields: &[(&str, &str)]) -> Answer {
        let shown = Browser::text(&self.get(app, page).await);
        let csrf = between(&shown, "name=\"csrf\" value=\"", "\"")
            .unwrap_or_else(|| panic!("{page} has no form: {shown}"));
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend_from_slice(fields);
        self.post(app, action, &all).await
    }

    /// Sends a form with these fields and nothing else.
    pub async fn post(&self, app: &TestApp, action: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = app.request(Method::POST, action, body);
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
        self.send(app, request).await
    }

    /// Signs in with a token, which has to be let in.
    pub async fn sign_in(&self, app: &TestApp, token: &str) {
        let answer = self.submit(app, "/sign-in", "/sign-in", &[("token", token)]).await;
        assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.bytes));
    }

    /// What the browser keeps under a name.
    pub fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.lock().unwrap().get(name).cloned()
    }

    /// Has the browser keep something that we did not tell it.
    #[allow(dead_code, reason = "not every test of pages meddles with cookies")]
    pub fn plant(&self, name: &str, value: &str) {
        self.cookies.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }

    /// Goes where an answer says, and returns the page there.
    pub async fn follow(&self, app: &TestApp, answer: &Answer) -> String {
        assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.bytes));
        let to = answer.headers[header::LOCATION].to_str().unwrap();
        let page = self.get(app, to).await;
        assert_eq!(page.status, 200, "{to}: {}", String::from_utf8_lossy(&page.bytes));
        Browser::text(&page)
    }

    /// Sends a request with the cookies that are kept.
    pub async fn send(&self, app: &TestApp, mut request: http::Request<Body>) -> Answer {
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, "text/html".parse().unwrap());
        let cookies: Vec<String> =
            self.cookies.lock().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            headers.insert(header::COOKIE, cookies.join("; ").parse().unwrap());
        }
        let answer = app.send(request).await;
        self.keep(&answer.headers);
        answer
    }

    fn keep(&self, headers: &HeaderMap) {
        let mut cookies = self.cookies.lock().unwrap();
        for set in headers.get_all(header::SET_COOKIE) {
            let text = set.to_str().unwrap();
            let (name, value) = text.split(';').next().unwrap().split_once('=').unwrap();
            match text.contains("Max-Age=0") {
                true => cookies.remove(name),
                false => cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
    }
}

/// What stands between two texts, the first time.
pub fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found.to_owned())
}

#[tokio::test]
async fn a_page_is_safe_to_look_at() {
    let app = TestApp::new().await;
    let page = Browser::default().get(&app, "/").await;
    assert_eq!(page.status, 200);
    let header = |name: &str| page.headers[name].to_str().unwrap().to_owned();
    assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "same-origin");
    assert_eq!(header("cache-control"), "no-store");
    let cookie = header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let text = Browser::text(&page);
    for inline in ["<script>", " style=\"", " onclick=", "javascript:"] {
        assert!(!text.contains(inline), "{inline} in {text}");
    }
}

#[tokio::test]
async fn what_a_page_loads_is_there_and_may_be_kept() {
    let app = TestApp::new().await;
    let text = Browser::text(&Browser::default().get(&app, "/").await);
    let sheet = between(&text, "rel=\"stylesheet\" href=\"", "\"").unwrap();
    let answer = app.get(&sheet).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/css; charset=utf-8");
    assert!(answer.headers["cache-control"].to_str().unwrap().contains("immutable"));
    assert_eq!(app.get("/assets/app.000000000000.css").await.status, 404);
}

#[tokio::test]
async fn an_address_without_a_page_says_so_on_a_page() {
    let app = TestApp::new().await;
    let page = Browser::default().get(&app, "/nowhere").await;
    assert_eq!(page.status, 404);
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(Browser::text(&page).contains("there is nothing at this address"));
    let program = app.get("/api/v1/nowhere").await;
    program.problem(404, "not_found");
}
