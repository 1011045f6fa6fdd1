//! Mail: one message for each notification, over STARTTLS unless configured otherwise.
//!
//! The address of the server is looked up once, checked like that of any destination, and connected to; its name is what
//! the certificate is checked against.

use std::time::Duration;

use lazaret_core::limits;
use lettre::address::Envelope as Recipients;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};

use super::payload::Payload;
use crate::config::{ReceiverConfig, SmtpTls};
use crate::destination::address::Lookup;

/// Sends a notification as a mail. Says why it could not.
pub(super) async fn send(
    config: &ReceiverConfig,
    password: Option<&str>,
    payload: &Payload,
) -> Result<(), String> {
    let message = message(config, payload)?;
    let host = config.host.as_deref().ok_or("host is missing")?;
    let lookup = Lookup { allow_private: config.allow_private };
    let address = match host.parse::<std::net::IpAddr>() {
        Ok(address) => address,
        Err(_) => {
            let found =
                lookup.addresses(host).await.map_err(|error| format!("cannot look up {host}: {error}"))?;
            found
                .iter()
                .min_by_key(|address| address.is_ipv6())
                .map(|address| address.ip())
                .ok_or_else(|| format!("{host} has no address"))?
        }
    };
    let parameters =
        || TlsParameters::new(host.to_owned()).map_err(|error| format!("TLS cannot be set up: {error}"));
    let tls = match config.tls {
        SmtpTls::StartTls => Tls::Required(parameters()?),
        SmtpTls::Tls => Tls::Wrapper(parameters()?),
        SmtpTls::None => Tls::None,
    };
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string())
        .port(config.port.unwrap_or(config.tls.port()))
        .tls(tls)
        .timeout(Some(Duration::from_millis(limits::NOTIFICATION_MS_MAX)));
    if let (Some(user), Some(password)) = (&config.user, password) {
        transport = transport.credentials(Credentials::new(user.clone(), password.to_owned()));
    }
    let mailer = transport.build();
    let sent = tokio::time::timeout(Duration::from_millis(limits::NOTIFICATION_MS_MAX), mailer.send(message));
    match sent.await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("{host}: {}", causes(&error))),
        Err(_) => Err(format!("{host}: no answer within {} ms", limits::NOTIFICATION_MS_MAX)),
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |cause| cause.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn message(config: &ReceiverConfig, payload: &Payload) -> Result<Message, String> {
    let mailbox = |text: &str| {
        text.parse::<Mailbox>().map_err(|error| format!("`{text}` is not a mail address: {error}"))
    };
    let from = mailbox(config.from.as_deref().ok_or("from is missing")?)?;
    let mut builder = Message::builder()
        .from(from.clone())
        .subject(payload.title.replace(['\r', '\n'], " "))
        // Receivers recognise a message that is sent again.
        .message_id(Some(format!("<{}@lazaret>", payload.id)))
        .header(ContentType::TEXT_PLAIN);
    let mut recipients = Vec::new();
    for to in &config.to {
        let mailbox = mailbox(to)?;
        recipients.push(mailbox.email.clone());
        builder = builder.to(mailbox);
    }
    let envelope = Recipients::new(Some(from.email), recipients).map_err(|error| error.to_string())?;
    let text = format!("{}\n\n{}", payload.title, payload.text());
    builder.envelope(envelope).body(text).map_err(|error| error.to_string())
}
