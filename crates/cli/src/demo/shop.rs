//! Harbour & Pine, the invented shop: its shops by country, its customers and its goods.
//!
//! Nobody and nothing here is real. Addresses for mail end in domains that are kept for examples, cards are masked
//! test numbers, and it must stay so: these texts are in every screenshot.

/// One of the shop's storefronts; letters name it as their tenant.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) tenant: &'static str,
    pub(super) country: &'static str,
    pub(super) currency: &'static str,
    /// Sales tax in percent.
    pub(super) tax: u32,
    /// Post code and town.
    pub(super) towns: &'static [(&'static str, &'static str)],
    pub(super) streets: &'static [&'static str],
}

/// The first one sells most: it stands three times in the draw.
pub(super) static SHOPS: [&Shop; 7] =
    [&GERMANY, &GERMANY, &GERMANY, &NETHERLANDS, &FRANCE, &BRITAIN, &SWEDEN];

static GERMANY: Shop = Shop {
    tenant: "harbour-pine-de",
    country: "DE",
    currency: "EUR",
    tax: 19,
    towns: &[("20459", "Hamburg"), ("18055", "Rostock"), ("04109", "Leipzig"), ("80331", "München")],
    streets: &["Am Kai", "Kieferngasse", "Lotsenweg", "Alte Werft"],
};

static NETHERLANDS: Shop = Shop {
    tenant: "harbour-pine-nl",
    country: "NL",
    currency: "EUR",
    tax: 21,
    towns: &[("3011 AB", "Rotterdam"), ("9711 AA", "Groningen"), ("3511 AA", "Utrecht")],
    streets: &["Havenkade", "Dennenlaan", "Loodsstraat"],
};

static FRANCE: Shop = Shop {
    tenant: "harbour-pine-fr",
    country: "FR",
    currency: "EUR",
    tax: 20,
    towns: &[("17000", "La Rochelle"), ("44000", "Nantes"), ("69001", "Lyon")],
    streets: &["Rue du Phare", "Quai des Pins", "Allée des Voiliers"],
};

static BRITAIN: Shop = Shop {
    tenant: "harbour-pine-uk",
    country: "GB",
    currency: "GBP",
    tax: 20,
    towns: &[("BS1 5TT", "Bristol"), ("EH6 6JH", "Leith"), ("PL1 2NZ", "Plymouth")],
    streets: &["Ropewalk", "Pine Terrace", "Chandler's Row"],
};

static SWEDEN: Shop = Shop {
    tenant: "harbour-pine-se",
    country: "SE",
    currency: "SEK",
    tax: 25,
    towns: &[("411 04", "Göteborg"), ("211 20", "Malmö"), ("903 26", "Umeå")],
    streets: &["Hamngatan", "Tallvägen", "Fyrgränd"],
};

/// A name as people write it, and as it stands in an address for mail.
pub(super) type Name = (&'static str, &'static str);

pub(super) static FIRST_NAMES: [Name; 24] = [
    ("Mia", "mia"),
    ("Jürgen", "juergen"),
    ("Zoë", "zoe"),
    ("Emeka", "emeka"),
    ("Astrid", "astrid"),
    ("Théo", "theo"),
    ("Priya", "priya"),
    ("Owen", "owen"),
    ("Łucja", "lucja"),
    ("Håkon", "hakon"),
    ("Fatima", "fatima"),
    ("Pieter", "pieter"),
    ("Noor", "noor"),
    ("Günther", "guenther"),
    ("Élodie", "elodie"),
    ("Sam", "sam"),
    ("Ines", "ines"),
    ("Björn", "bjoern"),
    ("Kenji", "kenji"),
    ("Ruth", "ruth"),
    ("Tomás", "tomas"),
    ("Wanda", "wanda"),
    ("Callum", "callum"),
    ("Sanne", "sanne"),
];

pub(super) static LAST_NAMES: [Name; 20] = [
    ("Keller", "keller"),
    ("Müller", "mueller"),
    ("Okafor", "okafor"),
    ("Lindqvist", "lindqvist"),
    ("Lefèvre", "lefevre"),
    ("Raman", "raman"),
    ("Pritchard", "pritchard"),
    ("de Wit", "dewit"),
    ("Sørensen", "sorensen"),
    ("Großmann", "grossmann"),
    ("Baker", "baker"),
    ("Visser", "visser"),
    ("Moreau", "moreau"),
    ("Åkesson", "akesson"),
    ("Haddad", "haddad"),
    ("Novak", "novak"),
    ("Tanaka", "tanaka"),
    ("Quinn", "quinn"),
    ("Brandt", "brandt"),
    ("Silva", "silva"),
];

/// Domains that can never receive mail.
pub(super) static MAIL_DOMAINS: [&str; 4] = ["example.com", "example.org", "example.net", "mail.example"];

/// One thing on the shelf.
#[derive(Debug)]
pub(super) struct Product {
    pub(super) sku: &'static str,
    pub(super) name: &'static str,
    pub(super) cents: u32,
}

const fn product(sku: &'static str, name: &'static str, cents: u32) -> Product {
    Product { sku, name, cents }
}

pub(super) static PRODUCTS: [Product; 16] = [
    product("LMP-OAK-01", "Oak desk lamp", 8_990),
    product("SHF-PIN-80", "Pine shelf, 80 cm", 5_450),
    product("SHF-PIN-120", "Pine shelf, 120 cm", 7_250),
    product("THR-WOL-GR", "Wool throw, grey", 6_900),
    product("MUG-HRB-04", "Harbour mugs, set of four", 3_200),
    product("RUG-JUT-16", "Jute rug, 160 cm", 14_900),
    product("STL-ASH-02", "Ash step stool", 11_500),
    product("CLK-BRS-01", "Ship's clock, brass", 18_900),
    product("BSK-WIL-L", "Willow basket, large", 4_100),
    product("CND-BEE-06", "Beeswax candles, six", 1_890),
    product("TBL-PIN-DR", "Drop-leaf table, pine", 32_900),
    product("HKS-IRN-05", "Iron coat hooks, five", 2_750),
    product("LNT-STM-02", "Storm lantern", 4_690),
    product("BLK-LIN-SD", "Linen bedding, sand", 12_900),
    product("CHR-WND-01", "Windsor chair", 21_900),
    product("SOP-TAR-03", "Pine tar soap, three", 1_450),
];

/// Test cards, masked as payment programs print them.
pub(super) static CARDS: [&str; 5] = [
    "**** **** **** 4242",
    "**** **** **** 0341",
    "**** **** **** 0002",
    "**** **** **** 1881",
    "**** **** **** 4444",
];

/// Invented carriers.
pub(super) static CARRIERS: [&str; 3] = ["dockyard", "northpost", "gullwing"];
