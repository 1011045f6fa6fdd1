<?php
// Reports a dead letter to Lazaret: PHP 8, no extension needed.

const RETRIED = [408, 429, 502, 503, 504];

/** Returns the server's answer. Safe to repeat: a report that was stored before is a duplicate. */
function report(array $entry, string $source = 'report'): string
{
    $url = getenv('LAZARET_URL') ?: 'http://127.0.0.1:7070';
    $token = getenv('LAZARET_TOKEN'); // role producer; not needed until the first token exists
    $headers = ['Content-Type: application/json'];
    if ($token) {
        $headers[] = "Authorization: Bearer $token";
    }
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => $headers,
        'content' => json_encode($entry, JSON_THROW_ON_ERROR),
        'timeout' => 30,
        'ignore_errors' => true, // hands out the body of an error as well
    ]]);
    foreach ([1, 2, 4, 8, 16, null] as $pause) {
        $http_response_header = [];
        $answer = @file_get_contents("$url/api/v1/dead-letters?source=$source", false, $context);
        // Without a status: connection refused, reset or timed out.
        $status = (int) (explode(' ', $http_response_header[0] ?? '')[1] ?? 0);
        if ($answer !== false && intdiv($status, 100) === 2) {
            return $answer;
        }
        if ($pause === null || ($status !== 0 && !in_array($status, RETRIED, true))) {
            throw new RuntimeException("report refused: $status $answer");
        }
        foreach ($http_response_header as $header) {
            if (stripos($header, 'Retry-After:') === 0) {
                $pause = max($pause, (int) substr($header, 12));
            }
        }
        sleep($pause);
    }
}

function handle(array $event): void
{
    throw new DomainException("invoice {$event['payload']['invoice']} has no currency");
}

$event = ['eventId' => 'evt-php-1', 'pattern' => 'invoice.created', 'payload' => ['invoice' => 4711]];
try {
    handle($event);
} catch (Throwable $error) { // after the last retry of your own
    try {
        echo report([
            'eventId' => $event['eventId'],
            'subscriberId' => 'billing',
            'originalEvent' => $event,
            'error' => ['type' => get_class($error), 'message' => $error->getMessage(), 'stackTrace' => (string) $error],
            'retryCount' => 3,
            'maxRetries' => 3,
        ]), "\n";
    } catch (RuntimeException $refused) {
        fwrite(STDERR, $refused->getMessage() . "\n");
        exit(1);
    }
}
