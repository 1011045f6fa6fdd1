//! Letters of which nobody knows whether they were sent, and the person who says it: one by one, or all of them.

use lazaret_server::config::Success;

use super::redriving::{drive, fixed, plan, serving};
use super::web::Browser;
use super::web_redrives::{FORM, has, launched, page_of, refused, see};

#[tokio::test]
async fn a_letter_of_which_nobody_knows_is_settled() {
    let (app, receiver) = serving(Success::Response).await;
    let (ids, _) = fixed(&app, 2).await;
    receiver.answers(&[502, 504]);
    let planned = plan(&app).await;
    launched(&app, &planned).await;
    drive(&app).await;
    let (browser, address) = (Browser::default(), page_of(&planned));
    let page = see(&browser, &app, &address).await;
    has(&page, &["2 with unknown outcome", "Mark as not sent", &format!("{}:1:1", ids[0])]);
    let settle = async |id: &str, outcome: &str| {
        let action = format!("{address}/letters/{id}/settle");
        browser.submit(&app, FORM, &action, &[("outcome", outcome)]).await
    };
    refused(&settle(&ids[0], "perhaps").await, 400, &["`perhaps` is unknown"]);
    let page = browser.follow(&app, &settle(&ids[0], "unclaim").await).await;
    has(&page, &["Marked as not sent. The letter is pending again", "1 with unknown outcome"]);
    let letter = app.get(&format!("/api/v1/dead-letters/{}", ids[0])).await.expect(200);
    assert_eq!(letter["status"], "pending");
    let page = browser.follow(&app, &settle(&ids[1], "sent").await).await;
    has(&page, &["Marked as sent", "1 assumed successful", "sent, says local"]);
    refused(&settle(&ids[1], "sent").await, 409, &["does not have an unknown outcome"]);
    app.check().await;
}

#[tokio::test]
async fn many_of_which_nobody_knows_are_settled_at_once_if_their_number_is_typed() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 3).await;
    receiver.answers(&[502, 504, 502]);
    let planned = plan(&app).await;
    launched(&app, &planned).await;
    drive(&app).await;
    let (browser, address) = (Browser::default(), page_of(&planned));
    let page = see(&browser, &app, &address).await;
    has(&page, &["Settle all 3", "Mark 3 as not sent", "data-mood=\"busy\""]);
    let settle = async |fields: &[(&str, &str)]| {
        browser.submit(&app, FORM, &format!("{address}/settle"), fields).await
    };
    refused(
        &settle(&[("outcome", "sent"), ("settled", "2")]).await,
        409,
        &["3 letters have an unknown outcome", "value=\"2\""],
    );
    refused(&settle(&[("outcome", "sent")]).await, 409, &["nothing was settled"]);
    refused(&settle(&[("outcome", "perhaps"), ("settled", "3")]).await, 400, &["`perhaps` is unknown"]);
    let page = browser.follow(&app, &settle(&[("outcome", "unclaim"), ("settled", "3")]).await).await;
    has(&page, &["3 letters settled."]);
    assert_eq!(app.get("/api/v1/dead-letters?status=pending").await.expect(200)["total"], 3);
    app.check().await;
}
