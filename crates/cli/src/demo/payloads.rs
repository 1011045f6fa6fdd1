//! What the shop's events carry, by kind of event. Broken ones are made here too: the fault that kills a letter can be
//! seen in its body.

use serde_json::{Value, json};

use super::facts::{Facts, money};

pub(super) fn order(facts: &Facts) -> Value {
    let mut order = order_without_currency(facts);
    order["currency"] = json!(facts.shop.currency);
    order
}

/// What release 4.12.0 of the order-service sends.
pub(super) fn order_without_currency(facts: &Facts) -> Value {
    json!({
        "orderId": facts.order(),
        "customerId": facts.customer(),
        "items": items(facts),
        "total": money(facts.cents()),
        "taxPercent": facts.shop.tax,
        "shippingAddress": address(facts),
    })
}

pub(super) fn payment(facts: &Facts) -> Value {
    json!({
        "paymentId": facts.payment(),
        "orderId": facts.order(),
        "customerId": facts.customer(),
        "amount": { "value": money(facts.cents()), "currency": facts.shop.currency },
        "card": { "masked": facts.card, "holder": facts.name() },
        "capture": "on_shipment",
    })
}

pub(super) fn refund(facts: &Facts) -> Value {
    json!({
        "refundId": facts.refund(),
        "paymentId": facts.payment(),
        "orderId": facts.order(),
        "amount": { "value": money(facts.cents()), "currency": facts.shop.currency },
        "iban": facts.iban(),
        "reason": if facts.variant.is_multiple_of(2) { "returned" } else { "damaged in transit" },
    })
}

pub(super) fn invoice(facts: &Facts) -> Value {
    json!({
        "invoiceNumber": facts.invoice(),
        "orderId": facts.order(),
        "customerId": facts.customer(),
        "billTo": { "name": facts.name(), "address": address(facts) },
        "net": money(facts.cents() * 100 / (100 + facts.shop.tax)),
        "gross": money(facts.cents()),
        "currency": facts.shop.currency,
    })
}

pub(super) fn email(facts: &Facts) -> Value {
    mail_to(facts, facts.email())
}

pub(super) fn email_to_nowhere(facts: &Facts) -> Value {
    mail_to(facts, facts.bad_email())
}

fn mail_to(facts: &Facts, to: String) -> Value {
    let template = ["order-confirmation", "shipping-notice", "invoice", "review-request"][facts.variant % 4];
    json!({
        "template": template,
        "to": to,
        "from": "hello@harbourpine.example",
        "locale": facts.shop.country.to_lowercase(),
        "orderId": facts.order(),
        "customerId": facts.customer(),
        "variables": { "firstName": facts.first_name.0, "total": money(facts.cents()) },
    })
}

pub(super) fn customer(facts: &Facts) -> Value {
    json!({
        "customerId": facts.customer(),
        "name": facts.name(),
        "email": facts.email(),
        "address": address(facts),
        "newsletter": facts.variant.is_multiple_of(3),
    })
}

/// A customer whose name has letters beyond ASCII, for the program that writes them in its own way.
pub(super) fn customer_with_umlaut(facts: &Facts) -> Value {
    let (name, email) = [
        ("Jürgen Müller", "juergen.mueller@example.org"),
        ("Björn Åkesson", "bjoern.akesson@example.net"),
        ("Günther Großmann", "guenther.grossmann@example.com"),
    ][facts.variant % 3];
    let mut customer = customer(facts);
    customer["name"] = json!(name);
    customer["email"] = json!(email);
    customer
}

pub(super) fn shipment(facts: &Facts) -> Value {
    json!({
        "shipmentId": facts.shipment(),
        "orderId": facts.order(),
        "carrier": facts.carrier,
        "parcels": parcels(facts),
        "to": { "name": facts.name(), "address": address(facts) },
    })
}

/// A parcel for the carrier whose key was replaced.
pub(super) fn shipment_by_dockyard(facts: &Facts) -> Value {
    let mut shipment = shipment(facts);
    shipment["carrier"] = json!("dockyard");
    shipment
}

/// A parcel that is fetched at a counter has no street.
pub(super) fn shipment_to_pickup_point(facts: &Facts) -> Value {
    json!({
        "shipmentId": facts.shipment(),
        "orderId": facts.order(),
        "carrier": facts.carrier,
        "parcels": parcels(facts),
        "to": { "name": facts.name(), "pickupPoint": facts.pickup_point(), "address": null },
    })
}

pub(super) fn product(facts: &Facts) -> Value {
    product_available(facts, "in_stock")
}

/// An availability that the catalogue invented before anybody else knew of it.
pub(super) fn product_for_preorder(facts: &Facts) -> Value {
    product_available(facts, "pre_order")
}

fn product_available(facts: &Facts, availability: &str) -> Value {
    let product = facts.product();
    json!({
        "sku": product.sku,
        "title": product.name,
        "price": { "value": money(product.cents), "currency": facts.shop.currency },
        "availability": availability,
        "tags": ["home", "wood", "new-season"],
        "changedBy": "catalogue-team",
    })
}

pub(super) fn reservation(facts: &Facts) -> Value {
    json!({
        "orderId": facts.order(),
        "warehouse": warehouse(facts),
        "items": items(facts),
    })
}

pub(super) fn stock(facts: &Facts) -> Value {
    json!({
        "sku": facts.product().sku,
        "warehouse": warehouse(facts),
        "onHand": facts.house,
        "reserved": facts.variant % 20,
        "countedBy": "scanner-14",
    })
}

fn warehouse(facts: &Facts) -> &'static str {
    if facts.variant.is_multiple_of(2) { "WH-HAMBURG" } else { "WH-GRONINGEN" }
}

fn items(facts: &Facts) -> Value {
    let items = facts.lines.iter().map(|line| {
        json!({
            "sku": line.product.sku,
            "title": line.product.name,
            "quantity": line.quantity,
            "unitPrice": money(line.product.cents),
        })
    });
    items.collect()
}

fn parcels(facts: &Facts) -> Value {
    let parcels = facts.lines.iter().map(|line| {
        json!({ "sku": line.product.sku, "pieces": line.quantity, "grams": 400 * line.quantity + 150 })
    });
    parcels.collect()
}

fn address(facts: &Facts) -> Value {
    let (postcode, town) = facts.town;
    json!({
        "street": format!("{} {}", facts.street, facts.house),
        "postcode": postcode,
        "town": town,
        "country": facts.shop.country,
    })
}
