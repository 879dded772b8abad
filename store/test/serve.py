# SPDX-License-Identifier: BSD-2-Clause
"""Asks hwt-jobs serve over HTTP: who may ask what, limits, what is answered, what is changed.  Speaks TAP.

serve.py [URL of PostgreSQL] [WORD in the names of the tests that are run]
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import sqlite3
import string
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import quote, urlencode

PATIENCE_S = int(os.environ.get("HWT_PATIENCE_S", "600"))  # only a hang lasts so long
TOOL = os.environ["BUILD"] + "/hwt-jobs"
EVIL = "e\x1b[2J\u202e\u2028\u2066<img src=x onerror=alert(1)>&\"'\\</script>"
DATA_PATHS = ["/metrics", "/api/about", "/api/kinds", "/api/groups?kind=mail", "/api/list?kind=mail", "/api/history", "/api/show?id=1"]
CHANGES = ["cancel", "retry", "move", "pause", "resume", "limit"]


class Store:
    """A database with tables of its own for each test."""

    def __init__(self, url, n):
        self.schema = "s_" + "".join(string.ascii_lowercase[n // 26**i % 26] for i in range(3))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hwt-serve."))
        self.url = url or f"sqlite:{self.folder}/jobs.db"
        self.servers = []
        self.tool("put", "mail", "first", "--make", "--at", "1h", "--key", "first")

    def tool(self, *words, status=0):
        ran = subprocess.run([TOOL, "-d", self.url, "--schema", self.schema, "--json", *words], capture_output=True,
                             timeout=PATIENCE_S)
        assert ran.returncode == status, f"{words}: exit {ran.returncode}: {ran.stderr!r}"
        return json.loads(ran.stdout) if ran.stdout else json.loads(ran.stderr)

    def put(self, kind, *words):
        return self.tool("put", kind, "--make", *words)["id"]

    def serve(self, *words):
        server = Server(self, words)
        self.servers.append(server)
        return server

    def refuses(self, *words):
        """The text with which it does not start."""
        ran = subprocess.run([TOOL, "-d", self.url, "--schema", self.schema, "serve", *words], capture_output=True,
                             timeout=PATIENCE_S)
        assert ran.returncode == 2, f"{words}: exit {ran.returncode}"
        return ran.stderr.decode()

    def close(self):
        for server in self.servers:
            server.end()
        subprocess.run(["rm", "-rf", str(self.folder)], check=True)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    def __init__(self, store, words):
        if "--listen" not in words and "--unix" not in words:
            words = ("--listen", "127.0.0.1:0") + words
        self.process = subprocess.Popen([TOOL, "-d", store.url, "--schema", store.schema, "serve", *words],
                                        stdout=subprocess.PIPE, text=True)
        self.line = self.process.stdout.readline().rstrip("\n")
        self.path = self.line if "--unix" in words else None
        self.token = self.line.partition("#")[2]
        if not self.path:
            self.host = self.line.split("/")[2]
            self.port = int(self.host.rpartition(":")[2])

    def connect(self):
        if not self.path:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        else:
            connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(PATIENCE_S)
            connection.sock.connect(self.path)
        return connection

    def ask(self, method, path, body=None, headers=(), connection=None):
        own = connection or self.connect()
        own.request(method, path, body, dict(headers))
        answer = Answer(own.getresponse())
        if not connection:
            own.close()
        return answer

    def ask_twice(self, method, path, name, values, headers=(), body=b""):
        """With a header that is there once for each of the values."""
        own = self.connect()
        own.putrequest(method, path)
        for header, value in [*dict(headers).items(), *((name, value) for value in values), ("Content-Length", str(len(body)))]:
            own.putheader(header, value)
        own.endheaders(body)
        answer = Answer(own.getresponse())
        own.close()
        return answer

    def get(self, path, **headers):
        return self.ask("GET", path, headers={"Authorization": "Bearer " + self.token, **headers})

    def change(self, name, **members):
        return self.ask("POST", "/api/" + name, json.dumps(members), {"Authorization": "Bearer " + self.token})

    def log_in(self, token=None):
        return self.ask("POST", "/login", urlencode({"token": token or self.token}))

    def raw(self, text):
        """What comes back first of these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
            connection.sendall(text)
            return connection.recv(65536)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return status


def lines(*checks):
    return [text for ok, text in checks if not ok]


def statuses(wanted, answers):
    return [f"{name}: {answer.status}, not {wanted}: {answer.body[:200]!r}" for name, answer in answers
            if answer.status != wanted]


#
# Who may ask
#


def hosts_of_this_machine_alone(store):
    server = store.serve()
    problems = []
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]:99", server.host]:
        problems += statuses(200, [(host, server.get("/api/kinds", Host=host))])
    for host in ["evil.example", "evil.example:8377", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "",
                 "[::2]", "[::1", "[localhost", "[::1:80", "[::1]x", "localhost:x", "127.0.0.1@evil.example", "2130706433"]:
        for path in ["/healthz", "/", "/api/kinds", "/nowhere"]:
            problems += statuses(421, [(host, server.get(path, Host=host))])
    for head in ["GET /healthz HTTP/1.0\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"]:
        got = server.raw(head.encode())
        problems += lines((b" 421 " in got or b" 400 " in got, f"{head!r}: {got!r}"))
    return problems


def data_needs_the_token(store):
    server = store.serve("--changes")
    problems = []
    for path in DATA_PATHS:
        problems += statuses(401, [(path, server.ask("GET", path))])
        for given in ["", "Bearer", "Bearer ", "Basic " + server.token, server.token]:
            problems += statuses(401, [(given, server.ask("GET", "/api/kinds", headers={"Authorization": given}))] if
                                 path == "/api/kinds" else [])
    for name in CHANGES:
        problems += statuses(401, [(name, server.ask("POST", "/api/" + name, '{"kind": "mail"}'))])
    for path in ["/", "/page.css", "/page.js", "/healthz"]:
        problems += statuses(200, [(path, server.ask("GET", path))])
    for path in DATA_PATHS[:-1]:
        problems += statuses(200, [(path, server.get(path))])
    for path, token, closes in [("/healthz", server.token, True), ("/api/kinds", "", True), ("/nowhere", server.token, True),
                                ("/api/kinds", server.token, False)]:
        answer = server.ask("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
        problems += lines(((answer.headers["Connection"] == "close") == closes, f"{path}: Connection: {answer.headers['Connection']}"))
    return problems + statuses(200, [("bearer", server.ask("GET", "/api/kinds", headers={"Authorization": "bearer " + server.token}))])


def a_guess_waits_a_second(store):
    server = store.serve("--changes")
    guesses = [lambda: server.ask("GET", "/api/kinds", headers={"Authorization": "Bearer " + "0" * 64}),
               lambda: server.ask("GET", "/api/kinds", headers={"Authorization": "Bearer " + server.token + "0"}),
               lambda: server.ask("GET", "/api/kinds", headers={"Authorization": "Bearer " + server.token[:-1]}),
               lambda: server.ask("GET", "/api/kinds", headers={"Cookie": f"hwt-jobs-{server.port}=" + "0" * 64}),
               lambda: server.ask("GET", "/api/kinds", headers={"Cookie": f"hwt-jobs-{server.port}={server.token}"}),
               lambda: server.ask("GET", "/api/kinds", headers={"Cookie": f"hwt-jobs-{server.port}="}),
               lambda: server.log_in("x")]
    problems = []
    for i, guess in enumerate(guesses):
        began = time.monotonic()
        problems += statuses(401, [(f"guess {i}", guess())])
        took = time.monotonic() - began
        problems += lines((took >= 1, f"guess {i}: answered in {took:.3f} s"))
    return problems


def a_guess_holds_up_nobody(store):
    server = store.serve()
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:  # on a busy machine the other one may take its second, too
        guess = server.connect()
        guess.request("GET", "/api/kinds", headers={"Authorization": "Bearer x"})
        server.ask("GET", "/healthz")
        answered = select.select([guess.sock], [], [], 0)[0]
        guess.close()
        if not answered:
            return []
    return ["each request was answered after the guess"]


def a_session_of_its_own(store):
    server = store.serve("--changes")
    answer = server.log_in()
    cookie = answer.headers["Set-Cookie"]
    name, _, value = cookie.split(";")[0].partition("=")
    mine = {"Cookie": f"other=1; {name}={value}"}
    origin, page = {"Origin": "http://" + server.host}, {"X-Hwt-Page": answer.json["page"]}
    body = json.dumps({"kind": "mail"})
    problems = lines(("HttpOnly" in cookie and "SameSite=Strict" in cookie and "Secure" not in cookie, cookie),
                     (value != server.token and answer.json["page"] not in (value, server.token), "it is the token"))
    other = server.log_in().json["page"]
    problems += statuses(200, [("look", server.ask("GET", "/api/kinds", headers=mine)),
                               ("a proxy's password", server.ask("GET", "/api/kinds", headers={**mine, "Authorization": "Basic eDp5"})),
                               ("a cookie of another port", server.ask("GET", "/api/kinds", headers={"Cookie": f"{name}=x; {name}={value}; {name}="})),
                               *((other, server.ask("GET", "/api/kinds", headers={"cookie": f"{other}; {name}={value}"}))
                                 for other in ['x="', "x=a b", "x", "=", "x=\\", ";", f"x{name}=1"]),
                               ("another header", server.ask_twice("GET", "/api/kinds", "Cookie", ["x=1", f"{name}={value}"])),
                               ("own origin", server.ask("GET", "/api/kinds", headers={**mine, **origin})),
                               ("change", server.ask("POST", "/api/pause", body, {**mine, **origin, **page})),
                               ("resume", server.ask("POST", "/api/resume", body, {**mine, **origin, **page}))])
    problems += statuses(401, [("a wrong token", server.ask("GET", "/api/kinds", headers={**mine, "Authorization": "Bearer x"}))])
    refused = {"no origin": {**mine, **page}, "no page": {**mine, **origin}, "null": {**mine, **page, "Origin": "null"},
               "another's page": {**mine, **origin, "X-Hwt-Page": other},
               "another port": {**mine, **page, "Origin": "http://127.0.0.1:1"},
               "another scheme": {**mine, **page, "Origin": "https://" + server.host},
               "another site": {**mine, **page, "Origin": "http://evil.example"},
               "begins alike": {**mine, **page, "Origin": f"http://{server.host}.evil.example"}}
    problems += statuses(403, [(why, server.ask("POST", "/api/pause", body, headers)) for why, headers in refused.items()])
    problems += statuses(403, [(path, server.ask("GET", path, headers={**mine, "Origin": "http://evil.example"}))
                               for path in ["/api/kinds", "/metrics"]])
    problems += statuses(403, [("login", server.ask("POST", "/login", "token=" + server.token, {"Origin": "http://evil.example"})),
                               ("twice", server.ask_twice("GET", "/api/kinds", "Origin", list(origin.values()) * 2, mine))])
    problems += statuses(400, [(repr(form), server.ask("POST", "/login", form)) for form in ["", "x=1", None]])
    return problems + lines((not store.tool("stats")[0]["paused"], "a refused change was made"))


def headers_of_each_answer(store):
    server = store.serve()
    problems = []
    for path in ["/", "/page.css", "/page.js", "/healthz", "/api/kinds", "/metrics", "/nowhere"]:
        answer = server.get(path)
        csp = answer.headers["Content-Security-Policy"] or ""
        problems += lines(("frame-ancestors 'none'" in csp and "default-src 'none'" in csp and "unsafe" not in csp, f"{path}: {csp}"),
                          (answer.headers["X-Content-Type-Options"] == "nosniff", f"{path}: nosniff"),
                          (answer.headers["Cache-Control"] == "no-store", f"{path}: no-store"))
    page = server.get("/").body.decode()
    for word in ["<style", "style=", "onclick", "onload", "javascript:", "http:", "https:", "<script>"]:
        problems += lines((word not in page, f"the page has {word}"))
    return problems


def paths_and_methods(store):
    server = store.serve("--changes")
    problems = statuses(404, [(path, server.get(path)) for path in
                              ["/nowhere", "/api", "/api/", "/api/put", "/api/remove", "/api/kinds/", "//", "/../etc/passwd",
                               "/page.js/x", "/%2e%2e", "/API/kinds"]])
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"]:
        for path in ["/", "/healthz", "/metrics", "/api/kinds", "/api/show"]:
            answer = server.ask(method, path, headers={"Authorization": "Bearer " + server.token})
            problems += statuses(405, [(f"{method} {path}", answer)]) + lines((answer.headers["Allow"] == "GET, HEAD", f"Allow: {path}"))
    for name in CHANGES:
        answer = server.get("/api/" + name)
        problems += statuses(405, [(name, answer)]) + lines((answer.headers["Allow"] == "POST", f"Allow: {name}"))
    return problems + statuses(200, [("HEAD", server.ask("HEAD", "/healthz"))])


#
# Limits
#


def big_bodies(store):
    server = store.serve("--changes")
    token = {"Authorization": "Bearer " + server.token}
    spaces = b" " * (1 << 20)
    problems = statuses(413, [("by its length", server.ask("POST", "/api/cancel", spaces + b" ", token)),
                              ("in parts", server.ask("POST", "/api/cancel", iter([spaces, spaces]), token)),
                              ("without a token", server.ask("POST", "/login", spaces * 3))])
    problems += statuses(400, [("1 MiB", server.ask("POST", "/api/cancel", spaces, token))])
    got = server.raw(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
    problems += lines((b" 413 " in got, f"a length alone: {got[:100]!r}"))
    got = server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100000 + b"\r\n\r\n")
    problems += lines((got.split(b" ")[1:2] in ([b"413"], [b"431"]), f"a long head: {got[:100]!r}"))
    return problems + statuses(200, [("afterwards", server.get("/api/kinds"))])


def answered(server, connection):
    """The status of an answer on this very connection; 0: it is closed."""
    try:
        status = server.ask("GET", "/api/about", None, {"Authorization": "Bearer " + server.token}, connection).status
    except (OSError, http.client.HTTPException):
        status = 0
    connection.auto_open = 0
    return status


def try_sixty_four(server):
    """That all answer after something happened says that none was closed before."""
    held = [server.connect() for _ in range(64)]
    firsts = [answered(server, connection) for connection in held]
    refused = b""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as more:
        while part := more.recv(4096):
            refused += part
    head, _, body = refused.partition(b"\r\n\r\n")
    other = server.connect()
    status = answered(server, other)
    other.close()
    seconds = [answered(server, connection) for connection in held]
    held.pop().close()
    freed, thirds = 0, [200]
    until = time.monotonic() + PATIENCE_S
    while freed != 200 and set(thirds) == {200} and time.monotonic() < until:  # the server has to see the end of that one
        other = server.connect()
        freed = answered(server, other)
        thirds = [answered(server, connection) for connection in held]
        other.close()
    for connection in held:
        connection.close()
    return lines((set(firsts) == {200}, f"of 64: {firsts}"),
                 (json.loads(body or "null") and b"Content-Length: %d\r\n" % len(body) in head + b"\r\n", f"{refused!r}"),
                 (b"nosniff" in head and b"frame-ancestors 'none'" in head, f"{head!r}"), (status in (0, 503), f"the 65th: {status}"),
                 (set(seconds) == {200}, f"of 64, after the 65th: {seconds}"),
                 (freed == 200 and set(thirds) == {200}, f"when one has left: {freed}, and the others: {thirds}"))


def sixty_four_connections(store):
    """On a slow machine the time limit of a connection may end some: then again."""
    for _ in range(30):
        server = store.serve()
        problems = try_sixty_four(server)
        server.end()
        if not problems:
            break
    return problems


def slow_requests(store):
    """By drops: in the head, and in the body."""
    server = store.serve("--changes")
    heads = [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"", f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n".encode()]
    slow = [socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) for _ in heads]
    began = time.monotonic()
    for connection, head in zip(slow, heads):
        connection.sendall(head)
    open_ones = dict(enumerate(slow))
    while open_ones and time.monotonic() < began + PATIENCE_S:
        time.sleep(0.25)
        for i, connection in list(open_ones.items()):
            try:
                if i != 1:
                    connection.send(b"x")
                if select.select([connection], [], [], 0)[0] and connection.recv(4096) == b"":
                    del open_ones[i]
            except OSError:
                del open_ones[i]
    took = time.monotonic() - began
    for connection in slow:
        connection.close()
    return lines((not open_ones, f"not closed: {sorted(open_ones)}"), (took >= 9, f"closed after {took:.1f} s"),
                 (server.ask("GET", "/healthz").status == 200, "and then it answers nobody"))


def a_request_has_ten_seconds(store):
    """One that came 3 s after another is closed after that one, whenever the first line of the other came."""
    server = store.serve()
    first = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
    server.ask("GET", "/healthz")
    time.sleep(3)
    later = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
    server.ask("GET", "/healthz")
    time.sleep(3)
    first.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    select.select([later], [], [], PATIENCE_S)
    closed = select.select([first], [], [], 0)[0]
    for connection in [first, later]:
        connection.close()
    return lines((closed, "its first line gave it the time once more"))


#
# What is answered
#


def the_json_of_the_tool(store):
    server = store.serve()
    one = store.put("mail", "data \u00e4", "--key", "k\u00e4y", "--group", "g 1", "--at", "2h", "--priority", "3")
    store.put("report", "--every", "1h", "--at", "1d")
    store.tool("limit", "mail", "--group", "g 1", "--running", "2")
    kinds, told = server.get("/api/kinds").json, store.tool("stats")
    for kind in kinds + told:
        kind.pop("overdue_us")
        kind.pop("waiting_age_ns")
        for reason in kind["waiting"].values():
            reason.pop("oldest_ns")
    problems = lines((kinds == told, f"kinds: {kinds}"),
                     (server.get("/api/groups?kind=mail").json == store.tool("groups", "mail"), "groups"),
                     (server.get(f"/api/show?id={one}").json == store.tool("show", str(one)), "show"),
                     (server.get("/api/show?" + urlencode({"kind": "mail", "key": "k\u00e4y", "group": "g 1"})).json["id"] == one, "by key"))
    metrics = server.get("/metrics")
    problems += lines((metrics.headers["Content-Type"].startswith("text/plain"), "no text"),
                      (b'hwt_store_kind_paused{kind="mail"} 0\n' in metrics.body, f"metrics: {metrics.body[-500:]!r}"))
    problems += statuses(404, [("show", server.get("/api/show?id=12345")), ("groups", server.get("/api/groups?kind=none")),
                               ("list", server.get("/api/list?kind=none"))])
    problems += statuses(400, [(path, server.get(path)) for path in
                               ["/api/show", "/api/show?id=x", "/api/show?id=-1", "/api/groups", "/api/groups?kind=mail&x=1", "/api/groups?kind=mail&x=",
                                f"/api/show?kind={one}", "/api/show?id=mail&key=first", "/api/list?id=mail", "/api/list?x=",
                                "/api/list?kind=mail&state=asleep", "/api/kinds?database=sqlite:x", "/api/kinds?help=true",
                                "/api/kinds?prometheus=maybe", "/api/kinds?prometheus=true", "/api/list?kind=%ff", "/api/list?kind=mail&key=%ff",
                                "/api/show?kind=mail&key=%c0%80", "/api/kinds?kind=%ed%a0%80", "/api/list?kind=mail&state=%ff"]])
    return problems


def pages_of_a_list(store):
    """Each row once, with every filter, whatever the size of a page."""
    server = store.serve()
    for i in range(23):
        store.put("row", "data", "--key", f"{'ab'[i % 2]}{i}", "--group", f"g{i % 3}", "--at", f"{2 if i < 12 else 3}h")
    store.put("tail", "--at", "2h")
    told = store.tool("list")
    problems = []

    def pages(limit, **filters):
        rows, after, n = [], "", 0
        while after is not None and n < 100:
            part = server.get("/api/list?" + urlencode({**filters, "limit": limit, "after": after})).json
            problems.extend(lines((len(part["list"]) <= limit, f"{filters}: {len(part['list'])} rows, not {limit}"),
                                  (part["next"] is None or part["list"] or "key" in filters, f"{filters}: nothing, and more")))
            rows += part["list"]
            after = part["next"]
            n += 1
        return rows

    for limit in [1, 2, 7, 100, 500]:
        for filters, wanted in [({}, told), ({"kind": "row"}, [row for row in told if row["kind"] == "row"]),
                                ({"kind": "row", "group": "g1"}, [row for row in told if row["group"] == "g1"]),
                                ({"kind": "row", "key": "a"}, [row for row in told if (row["key"] or "").startswith("a")]),
                                ({"kind": "row", "key": "b", "group": "g0"},
                                 [row for row in told if row["group"] == "g0" and row["key"].startswith("b")]),
                                ({"state": "pending"}, told), ({"state": "failed"}, []), ({"kind": "row", "no-group": "true"}, [])]:
            got = pages(limit, **filters)
            problems += lines((got == wanted, f"{filters} by {limit}: {[row['key'] for row in got]}"))
    without = server.get("/api/list?kind=row&data=no&group=").json["list"]
    problems += lines((len(without) == 23 and all("data" not in row and row["len"] == 4 for row in without), "data=no"),
                      (len(server.get("/api/list?limit=5000").json["list"]) == len(told), "more than 500"))
    problems += statuses(400, [(after, server.get("/api/list?kind=row&after=" + after)) for after in
                               ["x", "1", "1.", "1.x", "-1.1", "1.1.row", "1.0", "9" * 30 + ".1"]] +
                         [(limit, server.get("/api/list?kind=row&limit=" + limit)) for limit in ["0", "-1", "x"]])
    gone = store.put("gone", "--at", "1h")
    store.put("gone", "--at", "2h")
    after = server.get("/api/list?limit=1").json["next"]
    store.tool("cancel", "gone", "--all", "--yes")
    store.tool("remove", "gone")
    answer = server.get("/api/list?limit=1&after=" + after)
    return problems + lines((after.endswith(f".{gone}.gone"), after)) + statuses(400, [("a kind that has gone", answer)])


def what_is_due_and_why_it_waits(store):
    server = store.serve()
    for _ in range(3):
        store.put("late", "--at", "now")
    late, mail = server.get("/api/kinds").json
    for _ in range(98):
        store.put("late", "--at", "now")
    many = server.get("/api/kinds?kind=late").json[0]
    return lines((many["due"] == 100 and many["due_more"], f"{many}"),
                 (late["due"] == 3 and late["running"] == 0 and not late["due_more"], f"{late}"),
                 (mail["due"] == 0 and mail["waiting"] == {}, f"{mail}"),
                 (list(late["waiting"]) == ["nobody"] and late["waiting"]["nobody"]["count"] > 0 and
                  late["waiting"]["nobody"]["oldest_ns"] >= 0, f"{late}"))


def the_last_ten_minutes(store):
    server = store.serve()
    store.put("late", "--at", "now")
    until = time.monotonic() + PATIENCE_S
    points = []
    while len(points) < 3 and time.monotonic() < until:
        kinds = server.get("/api/history").json["kinds"]
        points = [point for point in kinds.get("late", {"overdue_us": []})["overdue_us"] if point]
    store.tool("cancel", "late", "--all", "-y")
    store.tool("remove", "late")
    left = kinds
    while "late" in left and time.monotonic() < until:
        left = server.get("/api/history").json["kinds"]
    past = kinds["mail"]["overdue_us"]
    return lines(("late" not in left and "mail" in left, f"a kind that is gone: {list(left)}"), (points, "nobody saw that a kind is late"),
                 (len(past) == 120 and len(kinds["mail"]["started_minute"]) == 120, "not ten minutes"), (past[-1] == 0 and past[0] is None, f"{past}"), (points == sorted(points), f"{points}"))


def hostile_names(store):
    server = store.serve("--changes")
    evil = EVIL[:60]
    one = store.put(evil, EVIL, "--key", EVIL, "--group", EVIL, "--at", "1h")
    problems = []
    for wanted, path in [(200, "/api/kinds"), (200, "/api/list?kind=" + quote(evil)), (200, f"/api/show?id={one}"), (200, "/metrics"),
                         (200, "/api/groups?kind=" + quote(evil)), (404, "/api/groups?kind=" + quote(EVIL[1:])),
                         (404, "/api/list?kind=" + quote(EVIL[1:])), (400, "/api/show?id=" + quote(EVIL)), (404, "/" + quote(EVIL))]:
        answer = server.get(path)
        problems += statuses(wanted, [(path, answer)])
        bad = [c for c in answer.body.decode() if (ord(c) < 32 and c != "\n") or 0x7f <= ord(c) < 0xa0 or c in "\u2028\u2029\u202e\u2066"]
        problems += lines((not bad, f"{path}: {bad}"))
    shown = server.get(f"/api/show?id={one}").json
    problems += lines((shown["kind"] == evil and shown["key"] == EVIL and shown["group"] == EVIL and shown["data"] == EVIL, f"{shown}"))
    problems += statuses(200, [("pause", server.change("pause", kind=evil, group=EVIL))])
    problems += lines((server.get("/api/groups?kind=" + quote(evil)).json[0]["group"] == EVIL, "a group's name"))
    return problems + statuses(200, [("cancel", server.change("cancel", kind=evil, key=EVIL, group=EVIL))])


#
# Changes
#


def each_change(store):
    server = store.serve("--changes")
    for i in range(6):
        store.put("mail", "--key", f"k{i}", "--group", f"g{i % 2}", "--at", "1h")
    one = store.put("mail", "--key", "moved", "--at", "1h")
    problems = []

    def made(wanted, name, **members):
        answer = server.change(name, **members)
        if answer.status != 200 or answer.json != wanted:
            problems.append(f"{name} {members}: {answer.status} {answer.body!r}")

    made({"moved": 1}, "move", id=one, at="2099-07-01T10:00Z")
    problems += lines((store.tool("show", str(one))["due"].startswith("2099-07-01T10:00"), "move"))
    made({"moved": 1}, "move", id=str(one), **{"in": "3h"})
    made({"moved": 3}, "move", kind="mail", all=True, group="g0", at="2h")
    made({"cancelled": 1}, "cancel", kind="mail", key="k1", group="g1")
    made({"cancelled": 3}, "cancel", kind="mail", all=True, group="g0", state="pending,failed")
    made({"retried": 0}, "retry", kind="mail", all=True, **{"no-group": False})
    made({"paused": 1}, "pause", kind="mail")
    made({"paused": 1}, "pause", kind="mail", group="g1")
    made({"limited": 1}, "limit", kind="mail", running=3, every="200ms", burst=10)
    kind = store.tool("stats", "mail")[0]
    problems += lines((kind["paused"] and kind["paused_groups"] == 1 and kind["each_group"] ==
                       {"running": 3, "start_every_ns": 200000000, "burst": 10}, f"{kind}"))
    made({"resumed": 1}, "resume", kind="mail")
    made({"unset": 1}, "limit", kind="mail", unset=True)
    made({"cancelled": 1}, "cancel", id=one)
    problems += statuses(404, [("ended", server.change("cancel", id=one)), ("no kind", server.change("pause", kind="male"))])
    left = [row["key"] for row in store.tool("list", "mail")]
    return problems + lines((sorted(left) == ["first", "k3", "k5"], f"left: {left}"))


def changes_that_are_no_use(store):
    server = store.serve("--changes")
    token = {"Authorization": "Bearer " + server.token}
    before = store.tool("list", "mail")
    one = before[0]["id"]
    bodies = [None, "", "{", "[]", "1", '"x"', '{"kind": "mail"', '{"kind": "mail"} x', '{"kind": "mail",}', '{"kind" "mail"}',
              '{"kind": ["mail"]}', '{"kind": {"a": 1}}', '{"kind": "mail", "all": true, "x": 1}', '{"all": true}',
              '{"kind": "mail", "all": "yes"}', '{"kind": "ma\\u0000il", "all": true}', '{"kind": "\\ud800", "all": true}',
              '{"kind": "mail\\x", "all": true}', '{"kind": "mail", "id": 1, "all": true}', '{"kind": true, "all": true}',
              '{"kind": "mail", "all": true, "database": "sqlite:x"}', '{"kind": "mail", "key": 1, "all": true}',
              '{"id": 1e3}', '{"id": "x"}', '{"id": ""}', '{"kind": "mail", "all": true, "group": "a", "no-group": true}',
              '{"id": "mail", "all": true}', '{"id": "mail", "key": "first"}', '{"kind": "%d"}' % one, '{"kind": %d}' % one,
              '{"kind": "mail", "all": true, "group": null}', '{"kind": "mail", "all": true, "group": false}',
              '{"kind": "mail", "key": null, "all": true}', '{"kind": "mail", "all": true, "state": null}',
              '{"id": %d, "x": null}' % one, '{"id": %d, "x": false}' % one, '{"id": %d, "all": true}' % one, '{"id": null}',
              '{"id": %d, "kind": null}' % one, '{"id": %d, "yes": null}' % one, '{"id": true}', '{"kind": "mail"}',
              b'{"kind": "mail", \0"all": true}', b"\xff", '{"kind": tru, "all": true}', '{"kind": "mail", "state": "due", "all": true}']
    problems = []
    for body in bodies:
        problems += statuses(400, [(repr(body), server.ask("POST", "/api/cancel", body, token))])
    problems += statuses(400, [(f"{name} {members}", server.change(name, **members)) for name, members in
                               [("pause", {"id": "mail"}), ("pause", {"id": one}), ("pause", {"kind": "mail", "group": None}),
                                ("retry", {"id": "mail", "all": True}), ("retry", {"kind": one}), ("move", {"kind": str(one), "in": "1h"}),
                                ("limit", {"kind": "mail", "running": 1, "group": None}), ("resume", {"kind": "mail", "group": False})]])
    problems += statuses(400, [("query", server.ask("POST", "/api/cancel?kind=mail&all=true", None, token)),
                               ("move", server.change("move", kind="mail", all=True)),
                               ("move", server.change("move", kind="mail", all=True, at="x")),
                               ("limit", server.change("limit", kind="mail")),
                               ("limit", server.change("limit", kind="mail", running=-1)),
                               ("limit", server.change("limit", kind="mail", running=2.5))])
    looks = store.serve()
    problems += statuses(403, [(name, looks.change(name, kind="mail", all=True)) for name in CHANGES])
    return problems + lines((store.tool("list", "mail") == before, "something was changed"),
                            (not store.tool("stats", "mail")[0]["paused"], "it is paused"))


#
# How it is started, and ends
#


def token_files(store):
    file = store.folder / "token"
    problems = []
    for text, mode in [("secret words of a file\n", 0o644), ("secret words of a file\n", 0o640), ("secret words of a file\n", 0o602), ("", 0o600), ("\n", 0o600), ("secret of 15 b.\n" + "x" * 20, 0o600),
                       ("secret\0" + "x" * 20 + "\n", 0o600), (" " * 20 + "\n", 0o600),
                       ("x" * 2000, 0o600)]:
        file.write_text(text)
        file.chmod(mode)
        said = store.refuses("--listen", "127.0.0.1:0", "--token-file", str(file))
        problems += lines(("token" in said and "secret" not in said, f"{mode:o}: {said}"))
    store.refuses("--token-file", str(store.folder / "none"))
    store.refuses("--token-file", str(store.folder))
    file.write_text("s3cret+word&x=12\nanother line\n")
    file.chmod(0o600)
    server = store.serve("--token-file", str(file))
    problems += lines(("#" not in server.line and "s3cret" not in server.line, server.line))
    server.token = "s3cret+word&x=12"
    return problems + statuses(200, [("token", server.get("/api/kinds")), ("login", server.log_in())])


def sockets_in_the_file_system(store):
    path = store.folder / "socket"
    server = store.serve("--changes", "--unix", str(path))
    problems = statuses(200, [("own", server.ask("GET", "/api/kinds")),
                              ("change", server.ask("POST", "/api/pause", '{"kind": "mail"}'))])
    problems += lines((path.stat().st_mode & 0o777 == 0o600, f"mode {path.stat().st_mode:o}"))
    problems += statuses(421, [("host", server.ask("GET", "/api/kinds", headers={"Host": "evil.example"}))])
    resume, evil = b'{"kind": "mail"}', "http://evil.example"  # a browser, to which the socket is forwarded
    problems += statuses(403, [(origin, server.ask("POST", "/api/resume", resume, {"Origin": origin}))
                               for origin in [evil, "null", "http://localhost:1", "https://localhost"]])
    problems += statuses(403, [("twice", server.ask_twice("POST", "/api/resume", "Origin", origins, (), resume))
                               for origins in [[evil, evil], ["http://localhost", evil], ["http://localhost"] * 2]])
    problems += statuses(403, [("a look", server.ask("GET", "/api/kinds", headers={"Origin": evil}))])
    problems += lines((store.tool("stats")[0]["paused"], "a page of another origin has changed something"))
    problems += statuses(200, [("its own page", server.ask("POST", "/api/resume", resume, {"Origin": "http://localhost"}))])
    problems += lines(("in use" in store.refuses("--unix", str(path)), "a second one takes the socket of the first"))
    if os.geteuid() == 0:  # as nobody, who may connect after a chmod
        path.chmod(0o666)
        store.folder.chmod(0o755)
        asks = "import http.client, socket, sys; c = http.client.HTTPConnection('localhost'); c.sock = socket.socket(socket.AF_UNIX); " \
            f"c.sock.connect({str(path)!r}); c.request('GET', '/api/kinds'); print(c.getresponse().status)"
        ran = subprocess.run([sys.executable, "-c", asks], user=65534, capture_output=True, text=True, timeout=PATIENCE_S)
        problems += lines((ran.stdout == "401\n", f"another user: {ran}"))
    server.process.kill()
    server.process.wait()
    again = store.serve("--unix", str(path))
    problems += statuses(200, [("after a kill", again.ask("GET", "/healthz"))])
    problems += lines((again.end() == 0 and not path.exists(), "the socket stays"))
    first = store.serve("--unix", str(path))
    path.unlink()
    second = store.serve("--unix", str(path))
    problems += lines((first.end() == 0 and path.exists(), "the socket of the next server was removed"))
    problems += statuses(200, [("the next server", second.ask("GET", "/healthz"))])
    second.end()
    path.write_text("mine")
    store.refuses("--unix", str(path))
    return problems + lines((path.read_text() == "mine", "a file was removed"))


def behind_a_proxy(store):
    file = store.folder / "token"
    file.write_text("the token of a proxy\n")
    file.chmod(0o600)
    problems = []
    for words in [("--listen", "0.0.0.0:0"), ("--listen", "[::]:0"), ("--behind-proxy",), ("--host", "a.example"), ("word",),
                  ("--listen", "127.0.0.1"), ("--listen", "x:1"), ("--listen", "127.0.0.1:99999"), ("--listen", ":1"),
                  ("--listen", "127.0.0.1:0", "--unix", "x"), ("--behind-proxy", "--host", "a", "--unix", str(store.folder / "s"))]:
        store.refuses(*words)
    server = store.serve("--changes", "--listen", "0.0.0.0:0", "--behind-proxy", "--host", "jobs.example", "--host", "b.example")
    login = server.ask("POST", "/login", "token=" + server.token, {"Host": "jobs.example", "Origin": "https://jobs.example"})
    cookie = login.headers["Set-Cookie"]
    mine = {"Cookie": cookie.split(";")[0], "X-Hwt-Page": login.json["page"], "Host": "jobs.example"}
    problems += lines(("Secure" in cookie and cookie.startswith("__Host-"), cookie))
    problems += statuses(200, [("change", server.ask("POST", "/api/pause", '{"kind": "mail"}', {**mine, "Origin": "https://jobs.example"})),
                               ("another name", server.get("/api/kinds", Host="B.example:443"))])
    problems += statuses(403, [("http", server.ask("POST", "/api/pause", '{"kind": "mail"}', {**mine, "Origin": "http://jobs.example"})),
                               ("the other", server.ask("POST", "/api/pause", '{"kind": "mail"}', {**mine, "Origin": "https://b.example"}))])
    problems += statuses(421, [("neither", server.get("/api/kinds", Host="c.example"))])
    path = store.folder / "socket"
    by_file = store.serve("--unix", str(path), "--behind-proxy", "--host", "jobs.example", "--token-file", str(file))
    return problems + statuses(401, [("the proxy's user is nobody", by_file.ask("GET", "/api/kinds"))])


def without_changes_nothing_is_written(store):
    """Of a file: neither tables, nor a mode, nor members of another boot; nothing of what was no store."""
    if not store.url.startswith("sqlite:"):
        return []
    file = pathlib.Path(store.url[7:])
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute(f"update {store.schema}_meta set boot = 'another'")
        db.execute(f"drop view {store.schema}_kinds")
        db.commit()
        db.execute("pragma journal_mode = delete")
    empty, foreign, text = (store.folder / name for name in ["empty", "foreign", "text"])
    empty.touch()
    text.write_text("no database" * 100)
    with contextlib.closing(sqlite3.connect(foreign)) as db:
        db.execute("create table mine (a)")
        db.commit()
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in [file, empty, foreign, text]}
    server = store.serve()
    problems = []
    for path in DATA_PATHS[:-1]:
        problems += statuses(200, [(path, server.get(path))])
    problems += lines((server.end() == 0, "no end"))
    for path in [empty, foreign, text]:
        ran = subprocess.run([TOOL, "-d", f"sqlite:{path}", "serve", "--listen", "127.0.0.1:0"], capture_output=True, text=True,
                             timeout=PATIENCE_S)
        problems += lines((ran.returncode == 3 and (str(path) in ran.stderr or "not a database" in ran.stderr), f"{path.name}: exit {ran.returncode}: {ran.stderr}"))
    problems += [f"{path.name} was changed" for path, was in before.items() if hashlib.sha256(path.read_bytes()).digest() != was]
    return problems


def ends_by_a_signal(store):
    problems = []
    for number in [signal.SIGTERM, signal.SIGINT]:
        server = store.serve()
        waits = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        waits.sendall(b"GET /healthz HTTP/1.1\r\n")
        server.get("/api/kinds")
        server.process.send_signal(number)
        status = server.process.wait(PATIENCE_S)
        problems += lines((status == 0, f"{number}: exit {status}"), (waits.recv(1) == b"", "the connection stays"))
        waits.close()
    return problems


TESTS = [hosts_of_this_machine_alone, data_needs_the_token, a_guess_waits_a_second, a_guess_holds_up_nobody,
         a_session_of_its_own, headers_of_each_answer, paths_and_methods, big_bodies, sixty_four_connections, slow_requests, a_request_has_ten_seconds,
         the_json_of_the_tool, pages_of_a_list, what_is_due_and_why_it_waits, the_last_ten_minutes, hostile_names, each_change, changes_that_are_no_use, token_files, sockets_in_the_file_system,
         behind_a_proxy, without_changes_nothing_is_written, ends_by_a_signal]


def run(test, url, n):
    try:
        store = Store(url, n)
    except Exception as error:  # pylint: disable=broad-except
        return [f"no store: {error!r}"]
    try:
        return test(store)
    except Exception as error:  # pylint: disable=broad-except
        import traceback
        return traceback.format_exc().splitlines() + [repr(error)]
    finally:
        store.close()


def main(tests):
    url, words = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    n = failed = 0
    for engine, at in [("sqlite", ""), ("postgresql", url)]:
        if engine == "postgresql" and not at:
            continue
        for test in tests:
            if words and not any(word in test.__name__ for word in words):
                continue
            n += 1
            problems = run(test, at, n)
            for problem in problems:
                print("# " + problem.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
            failed += bool(problems)
            print(f"{'not ok' if problems else 'ok'} {n} - {test.__name__}_{engine}", flush=True)
    print(f"1..{n}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(TESTS))
