"""Reports a dead letter to Lazaret: Python 3, standard library only."""
import json, os, sys, time, traceback, urllib.error, urllib.request

URL = os.environ.get("LAZARET_URL", "http://127.0.0.1:7070")
TOKEN = os.environ.get("LAZARET_TOKEN")  # role producer; not needed until the first token exists


def report(entry, source="report"):
    """Returns the server's answer. Safe to repeat: a report that was stored before is a duplicate."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    address = f"{URL}/api/v1/dead-letters?source={source}"
    request = urllib.request.Request(address, json.dumps(entry).encode(), headers)
    for pause_s in (1, 2, 4, 8, 16, None):
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.read().decode()
        except urllib.error.HTTPError as error:
            if pause_s is None or error.code not in (408, 429, 502, 503, 504):
                raise RuntimeError(f"report refused: {error.code} {error.read().decode()}") from error
            pause_s = max(pause_s, int(error.headers.get("Retry-After", 0)))
        except OSError:  # connection refused, reset or timed out
            if pause_s is None:
                raise
        time.sleep(pause_s)


def handle(event):
    raise ValueError(f"invoice {event['payload']['invoice']} has no currency")


if __name__ == "__main__":
    event = {"eventId": "evt-python-1", "pattern": "invoice.created", "payload": {"invoice": 4711}}
    try:
        handle(event)
    except Exception as error:  # after the last retry of your own
        try:
            print(report({
                "eventId": event["eventId"],
                "subscriberId": "billing",
                "originalEvent": event,
                "error": {
                    "type": type(error).__name__,
                    "message": str(error),
                    "stackTrace": traceback.format_exc(),
                },
                "retryCount": 3,
                "maxRetries": 3,
            }))
        except (RuntimeError, OSError) as refused:
            sys.exit(str(refused))
