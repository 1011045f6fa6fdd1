"""A worker for Lazaret in Python, nothing to install: worker.py [URL [QUEUE...]]. SIGTERM: finish the job, then end."""
import json, os, signal, socket, sys, threading, time, traceback, urllib.request

URL, QUEUES = (sys.argv[1:2] or ["http://127.0.0.1:7070"])[0], sys.argv[2:] or ["default"]
TOKEN = os.environ.get("LAZARET_TOKEN")  # where the server asks for one
HEADERS = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})
BEAT_S = float(os.environ.get("BEAT_S", "5"))  # well below the 30 s for which a job is ours unless it says otherwise
WORKER = f"{socket.gethostname()}-{os.getpid()}"
held, state, ending = [], "running", threading.Event()

def greet(job):
    return {"greeting": f"hello {job['args'][0]}"}  # becomes the job's result

def fail(job):
    raise ValueError(f"no {job['args'][0]} in stock")  # the job is tried again, and is a dead letter in the end

def die(job):  # as if killed: the job goes to another worker when this one's time with it is over
    return {"survived": True} if job["attempt"] > 1 else os._exit(1)

HANDLERS = {"demo.greet": greet, "demo.fail": fail, "demo.die": die, "demo.wait": lambda job: time.sleep(*job["args"])}

def call(path, body):
    request = urllib.request.Request(f"{URL}/ojs/v1/workers/{path}", json.dumps(body).encode(), HEADERS)
    for pause_s in (1, 2, 4, 8, 16, 0):  # patience with a server that restarts or is busy
        try:
            return json.load(urllib.request.urlopen(request, timeout=30))
        except OSError as error:
            print(f"{path}: {error}", flush=True)
            if getattr(error, "code", 503) not in (429, 503):
                return {}  # a job that is not ours any more, most likely: its time was over, or it was cancelled
        time.sleep(pause_s)
    return {}

def beat():  # keeps our jobs ours, and learns whether to go on: "quiet" is to fetch nothing, "terminate" to end
    global state
    while True:
        before, state = state, call("heartbeat", {"worker_id": WORKER, "active_jobs": held[:]}).get("state", state)
        if state != before:
            print("state", state, flush=True)
        if state == "terminate":
            ending.set()  # there is no way back from it
        time.sleep(BEAT_S)

def work(job):
    print("began", job["id"], flush=True)
    held.append(job["id"])
    try:
        word, path, said = "done", "ack", {"result": json.loads(json.dumps(HANDLERS[job["type"]](job)))}  # or it failed
    except Exception as error:
        told = {"type": type(error).__name__, "message": str(error), "backtrace": traceback.format_exc().splitlines()}
        word, path, said = "failed", "nack", {"error": told}
    became = call(path, {"job_id": job["id"], "worker_id": WORKER, **said}).get("state", "not ours any more")
    held.remove(job["id"])
    print(word, job["id"], became, flush=True)

signal.signal(signal.SIGTERM, lambda *_: ending.set())
threading.Thread(target=beat, daemon=True).start()
while not ending.is_set():
    jobs = call("fetch", {"queues": QUEUES, "worker_id": WORKER}).get("jobs") if state == "running" else None
    work(jobs[0]) if jobs else ending.wait(0.2)
