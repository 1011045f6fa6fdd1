//! What one event is about: who bought what, where it goes, how it was paid. Thrown once and then fixed, so that body,
//! message and context of a letter tell the same story at each of its deaths.

use super::dice::Dice;
use super::shop::{
    CARDS, CARRIERS, FIRST_NAMES, LAST_NAMES, MAIL_DOMAINS, Name, PRODUCTS, Product, SHOPS, Shop,
};

#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) shop: &'static Shop,
    pub(super) first_name: Name,
    pub(super) last_name: Name,
    pub(super) mail_domain: &'static str,
    pub(super) lines: Vec<Line>,
    /// Which of several ways to fail, to be spelled or to be addressed this event has.
    pub(super) variant: usize,
    pub(super) house: i64,
    pub(super) town: (&'static str, &'static str),
    pub(super) street: &'static str,
    pub(super) card: &'static str,
    pub(super) carrier: &'static str,
    order: i64,
    customer: i64,
    reference: String,
}

/// One line of an order.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) product: &'static Product,
    pub(super) quantity: u32,
}

/// Customers of the shop: few enough that some of them turn up again.
const CUSTOMERS: i64 = 6_000;

impl Facts {
    pub(super) fn throw(dice: &mut Dice) -> Facts {
        let shop = dice.pick(&SHOPS);
        let count = dice.between(1, 3);
        Facts {
            shop,
            first_name: dice.pick(&FIRST_NAMES),
            last_name: dice.pick(&LAST_NAMES),
            mail_domain: dice.pick(&MAIL_DOMAINS),
            lines: (0..count).map(|_| Line::throw(dice)).collect(),
            variant: dice.below(60) as usize,
            house: dice.between(1, 140),
            town: dice.pick(shop.towns),
            street: dice.pick(shop.streets),
            card: dice.pick(&CARDS),
            carrier: dice.pick(&CARRIERS),
            order: dice.between(200_000, 989_999),
            customer: dice.between(10_000, 10_000 + CUSTOMERS),
            reference: dice.word(b"abcdefghjkmnpqrstuvwxyz23456789", 12),
        }
    }

    pub(super) fn order(&self) -> String {
        format!("HP-{}", self.order)
    }

    pub(super) fn customer(&self) -> String {
        format!("C-{}", self.customer)
    }

    pub(super) fn invoice(&self) -> String {
        format!("INV-{}-{:06}", self.shop.country, self.order - 150_000)
    }

    pub(super) fn payment(&self) -> String {
        format!("pay_{}", self.reference)
    }

    pub(super) fn refund(&self) -> String {
        format!("rfd_{}", self.reference)
    }

    pub(super) fn shipment(&self) -> String {
        format!("shp_{}", self.reference)
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.first_name.0, self.last_name.0)
    }

    pub(super) fn email(&self) -> String {
        format!("{}.{}@{}", self.first_name.1, self.last_name.1, self.mail_domain)
    }

    /// An address as people mistype it.
    pub(super) fn bad_email(&self) -> String {
        let (first, last) = (self.first_name.1, self.last_name.1);
        match self.variant % 4 {
            0 => format!("{first}.{last}@@{}", self.mail_domain),
            1 => format!("{first} {last}@{}", self.mail_domain),
            2 => format!("{first}.{last}(at){}", self.mail_domain),
            _ => format!("{first}.{last}@"),
        }
    }

    /// An account that is masked but for its ends.
    pub(super) fn iban(&self) -> String {
        format!("{}{:02} **** **** **{:02}", self.shop.country, self.variant + 10, self.house % 100)
    }

    pub(super) fn pickup_point(&self) -> String {
        format!("PP-{:04}", 1_000 + self.house)
    }

    pub(super) fn product(&self) -> &'static Product {
        self.lines.first().map_or(&PRODUCTS[0], |line| line.product)
    }

    /// How many pieces of the first product are asked for.
    fn wanted(&self) -> u32 {
        self.lines.first().map_or(1, |line| line.quantity)
    }

    /// What the order costs, in hundredths.
    pub(super) fn cents(&self) -> u32 {
        self.lines.iter().map(|line| line.product.cents * line.quantity).sum()
    }

    /// The value behind a placeholder in a text, if there is a fact of that name.
    pub(super) fn word(&self, name: &str) -> Option<String> {
        Some(match name {
            "order" => self.order(),
            "customer" => self.customer(),
            "invoice" => self.invoice(),
            "payment" => self.payment(),
            "refund" => self.refund(),
            "shipment" => self.shipment(),
            "bad_email" => self.bad_email(),
            "iban" => self.iban(),
            "pickup_point" => self.pickup_point(),
            "sku" => self.product().sku.to_owned(),
            "wanted" => self.wanted().to_string(),
            "left" => (self.wanted() - 1).min(1).to_string(),
            "amount" => money(self.cents()),
            "currency" => self.shop.currency.to_owned(),
            "country" => self.shop.country.to_owned(),
            "card" => self.card.to_owned(),
            "carrier" => self.carrier.to_owned(),
            "reference" => self.reference.clone(),
            "column" => (380 + self.variant).to_string(),
            _ => return None,
        })
    }
}

impl Line {
    fn throw(dice: &mut Dice) -> Line {
        Line {
            product: &PRODUCTS[dice.below(PRODUCTS.len() as u64) as usize],
            quantity: dice.between(1, 3) as u32,
        }
    }
}

/// Hundredths as people write them.
pub(super) fn money(cents: u32) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}
