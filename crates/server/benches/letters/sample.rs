//! Letters to measure with: 1 KiB of order, 20 frames of backtrace, names that repeat as they do in life.

use std::sync::Arc;

use lazaret_server::app::App;
use lazaret_server::clock::Clock;
use lazaret_server::config::Config;
use lazaret_store::sqlite::{Mode, SqliteStore};
use tempfile::TempDir;

/// Letters of one batch.
pub const BATCH: usize = 1_000;

pub struct Bed {
    pub app: Arc<App>,
    pub folder: TempDir,
}

/// A fresh store in a folder of its own, with a real clock.
pub async fn bed() -> Bed {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let store = SqliteStore::open(folder.path(), Mode::Real).expect("the store opens");
    let app =
        App::new(Arc::new(store), Config::default(), Clock::System, false).await.expect("the app starts");
    Bed { app, folder }
}

/// When letters have died.
#[derive(Clone, Copy)]
pub enum Deaths {
    /// Just now, as they are reported in life.
    Now,
    /// One after the other over four weeks, as the n-th of so many: time ranges cut something off.
    Over(usize),
}

/// One reported entry; `n` makes it the n-th of its kind and decides its names.
pub fn entry(n: usize, deaths: Deaths) -> String {
    let mix = |salt: u64| (n as u64 ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let queue = ["billing", "orders", "shipping", "mail", "search"][(mix(1) % 5) as usize];
    let letter_type = format!("{queue}.step{}", mix(2) % 12);
    let error =
        ["java.net.SocketTimeoutException", "com.shop.OutOfStockException", "java.lang.NullPointerException"]
            [(mix(3) % 3) as usize];
    let backtrace: String = (0..20)
        .map(|frame| {
            let line = (mix(4) + frame * 7) % 400;
            format!(
                "\\tat com.shop.{queue}.Handler{}.step{frame}(Handler{}.java:{line})\\n",
                frame % 4,
                frame % 4
            )
        })
        .collect();
    let noise: String = (0..38).map(|part| format!("{:016x}", mix(100 + part))).collect();
    let created = match deaths {
        Deaths::Now => String::new(),
        Deaths::Over(size) => {
            let minute = n * 28 * 24 * 60 / size;
            let (day, hour, min) = (1 + minute / 1_440, (minute / 60) % 24, minute % 60);
            format!(",\"createdAt\":\"2026-10-{day:02}T{hour:02}:{min:02}:00Z\"")
        }
    };
    format!(
        r#"{{"eventId":"evt-{n:012}-{:08x}","subscriberId":"{queue}-worker","originalEvent":{{"eventId":"evt-{n:012}","pattern":"{letter_type}","version":"3","source":{{"type":"task","id":"t-{}","name":"checkout"}},"timestamp":"2026-10-01T10:00:00Z","payload":{{"orderId":"o-{}","customer":"c-{}","lines":[{{"sku":"A-100","count":2}},{{"sku":"B-{}","count":1}}],"note":"{noise}"}},"metadata":{{"tenantId":"t{}"}}}},"error":{{"type":"{error}","message":"{queue} call {} failed after 5000 ms: connection timed out","code":"E{}","stackTrace":"{backtrace}"}},"retryHistory":[],"retryCount":3,"maxRetries":3{created}}}"#,
        mix(6) as u32,
        mix(7) % 100,
        mix(8) % 100_000,
        mix(9) % 10_000,
        mix(10) % 1_000,
        mix(11) % 20,
        mix(12) % 100_000,
        mix(13) % 40,
    )
}
