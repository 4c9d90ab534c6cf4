//! A headless Chromium, driven by WebDriver's HTTP and JSON (<https://www.w3.org/TR/webdriver2/>).

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::Program;
use crate::wait;

/// The name under which WebDriver hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// More than any page here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// chromedriver, which starts browsers. They end with it.
pub struct Driver {
    port: u16,
    _program: Program,
}

/// A browser with one page, and nothing in common with other browsers.
pub struct Browser<'a> {
    driver: &'a Driver,
    session: String,
}

impl Driver {
    /// Starts it at a free port.
    #[track_caller]
    pub fn start() -> Self {
        let program = Program::start(Command::new("chromedriver").arg("--port=0"));
        let port = program.await_line("its port", |line| {
            let (_, rest) = line.split_once("on port ")?;
            rest.trim_end_matches('.').parse().ok().filter(|port| *port != 0)
        });
        Self { port, _program: program }
    }

    /// A new browser.
    #[track_caller]
    pub fn browser(&self) -> Browser<'_> {
        self.start_browser(false)
    }

    /// A new browser that takes any certificate.
    #[track_caller]
    pub fn trusting_browser(&self) -> Browser<'_> {
        self.start_browser(true)
    }

    #[track_caller]
    fn start_browser(&self, is_trusting: bool) -> Browser<'_> {
        // A container's /dev/shm is small, and root has no sandbox.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1360,860",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": args }, "goog:loggingPrefs": { "browser": "ALL" }, "timeouts": { "script": 30_000 },
            "acceptInsecureCerts": is_trusting,
        } } });
        let made =
            self.ask("POST", "/session", &wanted).unwrap_or_else(|error| panic!("no browser: {error}"));
        let session = made["sessionId"].as_str().expect("a session").to_owned();
        Browser { driver: self, session }
    }

    /// A request and its answer; the error is WebDriver's text.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        let answer = exchange(self.port, &(head + &body)).map_err(|error| error.to_string())?;
        let value: Value = serde_json::from_str(&answer.body).map_err(|error| error.to_string())?;
        let value = value["value"].clone();
        if answer.status == 200 { Ok(value) } else { Err(format!("{} {value}", answer.status)) }
    }
}

/// An answer of a server on this machine.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its head, in lower case.
    pub head: String,
    /// Its body.
    pub body: String,
}

/// Sends these bytes to a port of this machine, and reads an answer whose length is given.
pub fn exchange(port: u16, request: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() })
}

impl Browser<'_> {
    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.driver.ask(method, &format!("/session/{}{path}", self.session), body);
        answer.unwrap_or_else(|error| panic!("{method} {path} {body}: {error}"))
    }

    /// Opens an address.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({ "url": url }));
    }

    /// Loads the page again.
    #[track_caller]
    pub fn reload(&self) {
        self.ask("POST", "/refresh", &json!({}));
    }

    /// What a script returns, or a promise of it.
    #[track_caller]
    pub fn script(&self, text: &str) -> Value {
        self.ask("POST", "/execute/sync", &json!({ "script": text, "args": [] }))
    }

    /// Clicks on the element with this selector, as a mouse does.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into the element with this selector.
    #[track_caller]
    pub fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses and releases the mouse at this place of the window.
    #[track_caller]
    pub fn click_at(&self, x: f64, y: f64) {
        let actions = json!([
            { "type": "pointerMove", "duration": 0, "x": x.round(), "y": y.round(), "origin": "viewport" },
            { "type": "pointerDown", "button": 0 },
            { "type": "pointerUp", "button": 0 },
        ]);
        let mouse = json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": actions });
        self.ask("POST", "/actions", &json!({ "actions": [mouse] }));
    }

    /// The text of the elements with this selector that can be seen.
    #[track_caller]
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let script = format!(
            "return [...document.querySelectorAll({})].filter((one) => one.offsetParent !== null).map((one) => one.innerText.trim())",
            json!(selector)
        );
        let texts = self.script(&script);
        texts
            .as_array()
            .expect("a list")
            .iter()
            .map(|text| text.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits until the texts with this selector are as wanted.
    #[track_caller]
    pub fn await_texts(&self, selector: &str, what: &str, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut last = Vec::new();
        let found = wait::holds(|| {
            last = self.texts(selector);
            wanted(&last)
        });
        assert!(found, "waited in vain for {what}: {selector} is {last:?}\n{:?}", self.errors());
        last
    }

    /// The value of an attribute; empty if there is none.
    #[track_caller]
    pub fn attribute(&self, selector: &str, name: &str) -> String {
        let script =
            format!("return document.querySelector({}).getAttribute({})", json!(selector), json!(name));
        self.script(&script).as_str().unwrap_or_default().to_owned()
    }

    /// What the browser reports as errors of the page: of its scripts, its policy and what it loads.
    #[track_caller]
    pub fn errors(&self) -> Vec<String> {
        let log = self.ask("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().expect("a list").iter();
        let severe = entries.filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].to_string()).collect()
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let found = self.ask("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // Without an answer the browser ends with its driver.
        let _ = self.driver.ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
    }
}
