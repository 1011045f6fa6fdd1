//! Packages of Java, Kotlin, Scala, Groovy and Clojure that are not the program's own.

use super::is_in;
use crate::fingerprint::frame::Origin;
use crate::fingerprint::search::{self, Parts};

pub(super) fn origin(function: &str) -> Origin {
    // Proxies, reflection and the compiler's bridges come and go with the version of a container.
    let made_up =
        || search::has_any(function, const { Parts::of(&["$$FastClass", "$$Lambda", "$Proxy", ".access$"]) });
    if is_runtime(function) {
        return Origin::Runtime;
    }
    if is_in(LIBRARIES, function) {
        return Origin::Library;
    }
    if function.contains('$') && made_up() {
        return Origin::Runtime;
    }
    if search::has_any(function, const { Parts::of(&[".shaded."]) }) {
        Origin::Library
    } else {
        Origin::InApp
    }
}

fn is_runtime(function: &str) -> bool {
    let first = function.split('.').next().unwrap_or(function);
    match first {
        "android" | "clojure" | "dalvik" | "groovy" | "jakarta" | "java" | "javax" | "jdk" | "kotlin"
        | "kotlinx" | "libcore" | "scala" | "sun" => true,
        "com" => function.starts_with("com.sun."),
        "org" => ["org.codehaus.groovy.", "org.graalvm.", "org.omg."]
            .iter()
            .any(|package| function.starts_with(package)),
        _ => function.starts_with("$Proxy"),
    }
}

#[rustfmt::skip]
pub(super) const LIBRARIES: &[&str] = &[
    "aj.org", "akka", "androidx", "antlr", "arrow", "brave", "cats", "ch.qos", "ch.vorburger", "co.elastic", "co.paralleluniverse", "com.adyen",
    "com.alibaba", "com.amazon", "com.amazonaws", "com.apollographql", "com.arangodb", "com.atomikos", "com.auth0", "com.azure", "com.beust",
    "com.braintreegateway", "com.bugsnag", "com.caucho", "com.clickhouse", "com.cloudbees", "com.codahale", "com.contentful", "com.couchbase",
    "com.datadog", "com.datadoghq", "com.datastax", "com.dynatrace", "com.eclipsesource", "com.esotericsoftware", "com.facebook", "com.fasterxml",
    "com.github", "com.google", "com.googlecode", "com.h2database", "com.hazelcast", "com.hivemq", "com.hubspot", "com.ibm", "com.impossibl",
    "com.influxdb", "com.itextpdf", "com.jayway", "com.jcraft", "com.jolbox", "com.launchdarkly", "com.lightbend", "com.linecorp", "com.lmax",
    "com.lowagie", "com.mailgun", "com.mailjet", "com.mchange", "com.meilisearch", "com.microsoft", "com.mongodb", "com.mysema", "com.mysql",
    "com.neovisionaries", "com.netflix", "com.networknt", "com.newrelic", "com.nimbusds", "com.ning", "com.oracle", "com.p6spy", "com.paypal",
    "com.pivotal", "com.querydsl", "com.rabbitmq", "com.rometools", "com.salesforce", "com.sap", "com.sendgrid", "com.shopify", "com.slack",
    "com.snowflake", "com.solace", "com.solacesystems", "com.spotify", "com.squareup", "com.stripe", "com.sybase", "com.tangosol", "com.thoughtworks",
    "com.tibco", "com.timgroup", "com.twilio", "com.twitter", "com.typesafe", "com.uber", "com.unboundid", "com.vaadin", "com.vladmihalcea",
    "com.vmware", "com.wavefront", "com.webmethods", "com.yammer", "com.zaxxer", "coursier", "datadog", "de.flapdoodle", "dev.failsafe",
    "dev.langchain4j", "dev.morphia", "doobie", "edu.umd", "feign", "freemarker", "fs2", "graphql", "io.ably", "io.activej", "io.aeron", "io.agroal",
    "io.appium", "io.awspring", "io.axoniq", "io.buoyant", "io.burt", "io.camunda", "io.circe", "io.cloudevents", "io.confluent", "io.debezium",
    "io.dekorate", "io.dgraph", "io.dropwizard", "io.ebean", "io.envoyproxy", "io.etcd", "io.fabric8", "io.feign", "io.foundationdb", "io.getquill",
    "io.getunleash", "io.github.bucket4j", "io.github.resilience4j", "io.grpc", "io.helidon", "io.hypersistence", "io.jaegertracing", "io.javalin",
    "io.jsonwebtoken", "io.katharsis", "io.kotest", "io.ktor", "io.kubernetes", "io.lettuce", "io.logz", "io.micrometer", "io.micronaut", "io.milvus",
    "io.minio", "io.mongock", "io.nats", "io.netty", "io.opencensus", "io.openliberty", "io.opentelemetry", "io.opentracing", "io.outfoxx",
    "io.projectreactor", "io.prometheus", "io.pulsar", "io.qdrant", "io.quarkiverse", "io.quarkus", "io.r2dbc", "io.reactivex", "io.rest-assured",
    "io.restassured", "io.rsocket", "io.sentry", "io.smallrye", "io.split", "io.spring", "io.swagger", "io.temporal", "io.thorntail", "io.trino",
    "io.undertow", "io.vavr", "io.vertx", "io.weaviate", "io.zeebe", "io.zipkin", "it.unimi", "jodd", "jsr166", "junit", "kafka", "liquibase",
    "lombok", "microsoft.sql", "mjson", "monix", "name.nkonev", "nd4j", "net.bytebuddy", "net.datafaker", "net.devh", "net.i2p", "net.javacrumbs",
    "net.jodah", "net.jpountz", "net.logstash", "net.minidev", "net.postgis", "net.rubyeye", "net.sf", "net.snowflake", "net.sourceforge", "net.spy",
    "net.thisptr", "net.ttddyy", "no.finn", "no.nav.security", "nonapi.io", "nu.xom", "odelay", "okhttp3", "okio", "oracle", "org.activiti",
    "org.aeonbits", "org.antlr", "org.aopalliance", "org.apache", "org.arquillian", "org.asciidoctor", "org.aspectj", "org.assertj",
    "org.asynchttpclient", "org.awaitility", "org.axonframework", "org.bouncycastle", "org.bson", "org.camunda", "org.cassandraunit",
    "org.checkerframework", "org.citrusframework", "org.codehaus", "org.dataloader", "org.datanucleus", "org.dom4j", "org.drools", "org.eclipse",
    "org.ehcache", "org.elasticmq", "org.elasticsearch", "org.flowable", "org.flywaydb", "org.fusesource", "org.geotools", "org.glassfish",
    "org.gradle", "org.graphstream", "org.h2", "org.hamcrest", "org.hdfgroup", "org.hibernate", "org.hornetq", "org.hsqldb", "org.http4k",
    "org.http4s", "org.ietf", "org.infinispan", "org.ini4j", "org.jacoco", "org.javalite", "org.javamoney", "org.jboss", "org.jdbi", "org.jdom",
    "org.jdom2", "org.jeasy", "org.jetbrains", "org.jfree", "org.jgroups", "org.jline", "org.jobrunr", "org.joda", "org.jooq", "org.json",
    "org.jsoup", "org.jspecify", "org.junit", "org.keycloak", "org.kie", "org.knowm", "org.koin", "org.ktorm", "org.litote", "org.locationtech",
    "org.lognet", "org.lz4", "org.mapdb", "org.mapstruct", "org.mariadb", "org.mindrot", "org.mockito", "org.mockserver", "org.modelmapper",
    "org.mongodb", "org.mozilla", "org.msgpack", "org.mvel2", "org.mybatis", "org.neo4j", "org.objectweb", "org.objenesis", "org.opensaml",
    "org.opensearch", "org.owasp", "org.pac4j", "org.pf4j", "org.picketlink", "org.postgis", "org.postgresql", "org.projectreactor", "org.quartz",
    "org.reactivestreams", "org.redisson", "org.reflections", "org.rocksdb", "org.scalatest", "org.seleniumhq", "org.simplejavamail", "org.slf4j",
    "org.snakeyaml", "org.springdoc", "org.springframework", "org.sqlite", "org.testcontainers", "org.testng", "org.thymeleaf", "org.togglz",
    "org.tukaani", "org.typelevel", "org.w3c", "org.wildfly", "org.wiremock", "org.xbill", "org.xerial", "org.xml", "org.xmlunit", "org.xnio",
    "org.yaml", "org.zalando", "org.zeromq", "org.zeroturnaround", "peasy", "pl.allegro.tech.hermes", "play", "reactor", "redis.clients", "retrofit2",
    "ru.yandex.clickhouse", "rx", "scalapb", "shapeless", "skunk", "slick", "software.amazon", "springfox", "sttp", "swaydb", "tech.allegro",
    "us.codecraft", "weblogic", "wiremock", "zio", "zipkin2",
];
