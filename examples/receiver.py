"""A receiver for redriven letters: Python 3, standard library only. receiver.py [PORT]

Accepts the original event as an HTTP POST, processes each Idempotency-Key once, and answers 204. Any other status
makes the letter pending again, with the answer as its newest error. Set SECRET to the secret of the destination to
check signatures.
"""
import hashlib, hmac, json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 8090
SECRET = os.environ.get("SECRET")
processed = set()  # in production: a table with a unique key, written in the transaction of the work


def process(event):
    print("processed", json.dumps(event), flush=True)  # your work; an exception is answered with 500


def is_signed(header, body):
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    t, v1 = parts.get("t", ""), parts.get("v1", "")
    if not t.isdecimal() or abs(time.time() - int(t)) > 300:
        return False
    expected = hmac.new(SECRET.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), v1.encode())


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if SECRET and not is_signed(self.headers.get("Lazaret-Signature", ""), body):
            return self.answer(401, "bad signature")
        key = self.headers.get("Idempotency-Key")
        if key and key in processed:
            return self.answer(204)
        try:
            process(json.loads(body))
        except Exception as error:
            return self.answer(500, f"{type(error).__name__}: {error}")
        processed.add(key)
        self.answer(204)

    def answer(self, status, text=""):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
    print(f"receiving on http://127.0.0.1:{server.server_port}/events", flush=True)
    server.serve_forever()
