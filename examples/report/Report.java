// Reports a dead letter to Lazaret: Java 17 or newer, standard library only. Run with: java Report.java
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Set;

public class Report {
    static final String URL = System.getenv().getOrDefault("LAZARET_URL", "http://127.0.0.1:7070");
    static final String TOKEN = System.getenv("LAZARET_TOKEN"); // role producer; not needed until the first token exists
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofSeconds(10)).build();
    static final Set<Integer> RETRIED = Set.of(408, 429, 502, 503, 504);
    static final long[] PAUSES_S = {1, 2, 4, 8, 16};

    /** Returns the server's answer. Safe to repeat: a report that was stored before is a duplicate. */
    static String report(String entry, String source) throws IOException, InterruptedException {
        var builder = HttpRequest.newBuilder(URI.create(URL + "/api/v1/dead-letters?source=" + source))
            .timeout(Duration.ofSeconds(30)).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(entry));
        if (TOKEN != null) builder.header("Authorization", "Bearer " + TOKEN);
        var request = builder.build();
        for (int n = 0; ; n++) {
            boolean last = n == PAUSES_S.length;
            long pauseS = last ? 0 : PAUSES_S[n];
            HttpResponse<String> response = null;
            try {
                response = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
            } catch (IOException error) { // connection refused, reset or timed out
                if (last) throw error;
            }
            if (response != null) {
                if (response.statusCode() / 100 == 2) return response.body();
                if (last || !RETRIED.contains(response.statusCode()))
                    throw new IOException("report refused: " + response.statusCode() + " " + response.body());
                pauseS = Math.max(pauseS, response.headers().firstValueAsLong("Retry-After").orElse(0));
            }
            Thread.sleep(pauseS * 1000);
        }
    }

    /** A JSON string. With a JSON library, use that. */
    static String json(String text) {
        var out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ' || Character.isSurrogate(c)) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    static void handle(String event) {
        throw new IllegalArgumentException("invoice 4711 has no currency");
    }

    public static void main(String[] args) throws InterruptedException {
        String event = """
            {"eventId": "evt-java-1", "pattern": "invoice.created", "payload": {"invoice": 4711}}""";
        try {
            handle(event);
        } catch (RuntimeException error) { // after the last retry of your own
            var trace = new StringWriter();
            error.printStackTrace(new PrintWriter(trace));
            String entry = """
                {"eventId": "evt-java-1", "subscriberId": "billing", "originalEvent": %s,
                 "error": {"type": %s, "message": %s, "stackTrace": %s}, "retryCount": 3, "maxRetries": 3}"""
                .formatted(event, json(error.getClass().getName()), json(error.getMessage()), json(trace.toString()));
            try {
                System.out.println(report(entry, "report"));
            } catch (IOException refused) {
                System.err.println(refused);
                System.exit(1);
            }
        }
    }
}
