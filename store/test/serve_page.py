# SPDX-License-Identifier: BSD-2-Clause
"""The page of hwt-jobs serve, as a person meets it, in a headless Chromium.  Speaks TAP.

serve_page.py [URL of PostgreSQL] [WORD in the names of the tests that are run]
"""

import http.server
import os
import sqlite3
import subprocess
import sys
import threading
import time

from browser import Browser
from serve import EVIL, Store, lines, main

EVIL_KIND = EVIL[:60]
INHERITED = ["constructor", "toString", "__proto__"]  # names that each object has
ODD = [c for c in EVIL if ord(c) < 32 or ord(c) > 0x2000]


def sql(store, text):
    """Executes statements on the tables, which @_ names."""
    text = text.replace("@_", store.schema + "_")
    if store.url.startswith("sqlite:"):
        with sqlite3.connect(store.url[7:], timeout=600) as database:
            database.executescript(text)
        return
    subprocess.run([os.environ["HWT_STORE_PG_BIN"] + "/psql", "-qd", store.url, "-v", "ON_ERROR_STOP=1", "-c", text], check=True,
                   stdout=subprocess.DEVNULL, timeout=600)


def fail(store, key, error):
    sql(store, f"update @_timeout set state = 3, shard = -1 - shard, attempt = 20, error = '{error}' where key = '{key}'")


def look(store, *words):
    """A server, and a browser that shows its page."""
    server = store.serve(*words)
    browser = Browser(store.folder)
    store.browser = browser
    browser.go(server.line)
    browser.until("document.querySelector('.verdict') !== null")
    return server, browser


def visit(browser, where):
    browser.js("location.hash = arguments[0]", where)
    browser.until("document.querySelector('h1') !== null")


def click(browser, selector, text=None):
    browser.until("[...document.querySelectorAll(arguments[0])].some((is) => !arguments[1] || is.innerText === arguments[1])", selector, text)
    browser.js("[...document.querySelectorAll(arguments[0])].find((is) => !arguments[1] || is.innerText === arguments[1]).click()",
               selector, text)


def has(browser, *texts):
    browser.until("arguments[0].every((text) => document.body.innerText.includes(text))", list(texts))


def fits(browser, what):
    wide = browser.js("return document.scrollingElement.scrollWidth - innerWidth")
    return lines((wide <= 0, f"{what}: {wide} pixels too wide"))


def clock_us(store):
    """On the clock of leases."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME if store.url.startswith("sqlite:") else time.CLOCK_REALTIME) * 1e6)


def tell(store, kinds, late_s, waits, starts):
    """A living process that runs these kinds, by their numbers; {at} in waits is when the oldest was due."""
    listed = "," + kinds + "," if store.url.startswith("sqlite:") else "{" + kinds + "}"
    late_us = int((time.time() - late_s) * 1e6)
    sql(store, "insert into @_member (name, incarnation, until_us, kinds, waits, waits_us, starts) values ('alive', 7, "
        f"{clock_us(store) + 3000000000}, '{listed}', '{waits}', {late_us}, '{starts}')".replace("{at}", f"@{late_us}"))
    sql(store, "update @_shard set owner = 'alive'")


def what_stands_still_comes_first(store):
    for key in ["a", "b"]:
        store.put("mail", "--key", key, "--at", "now")
    store.put("report", "--at", "1d")
    store.put("old", "--at", "now", "--key", "o")
    sql(store, "update @_timeout set due_us = due_us - 7200000000 where key = 'o'")
    fail(store, "b", "mailbox unavailable")
    _, browser = look(store)
    first = browser.js("return document.querySelector('.verdict li').innerText")
    problems = lines((first.startswith("old stands still: no process runs it. 1 due, the oldest for 2 h."), first),
                     ("#" not in browser.js("return location.href").replace("#/", ""), "the token stays in the URL"),
                     (browser.js("return document.title") == "(2) hwt-jobs", browser.js("return document.title")),
                     (not browser.js("return document.querySelector('[data-act]')"), "it offers changes"))
    click(browser, ".verdict a", "1 failed")
    has(browser, "mailbox unavailable", "failed")
    problems += lines(("pending" not in browser.js("return document.querySelector('tbody').innerText"), "pending ones, too"))
    click(browser, "tbody a")
    has(browser, "mailbox unavailable", "attempt 20", "Data, 0 bytes")
    return problems + lines((not browser.console(), f"{browser.console()}"))


def what_processes_tell(store):
    """Why the oldest waits, what helps, and how much starts."""
    store.put("mail", "--key", "late", "--at", "now")
    sql(store, "update @_timeout set due_us = due_us - 60000000 where key = 'late'")
    tell(store, "1", 60, "1:cap=1{at}", "1=300")
    _, browser = look(store)
    has(browser, "mail is late: as many of a group run as may, unchanged for", "Raise the limit of the group", "now 5 a second")
    browser.until("document.querySelector('svg.starts') !== null && document.querySelector('svg.late') !== null")
    sql(store, "update @_member set starts = '1=7'")
    has(browser, "now 7 a minute")
    return fits(browser, "charts")


def an_empty_store(store):
    store.tool("cancel", "mail", "--all", "-y")
    store.tool("remove", "mail")
    _, browser = look(store)
    return lines(("There are no kinds yet" in browser.text(), browser.text())) + fits(browser, "empty")


def it_redraws_and_keeps_what_was_typed(store):
    _, browser = look(store)
    visit(browser, "#/kind/mail")
    browser.until("document.querySelector('input[name=key]') !== null")
    browser.js("document.querySelector('input[name=key]').focus()")
    browser.keys("fir")
    store.put("mail", "--key", "second", "--at", "2h")
    has(browser, "second")
    kept = browser.js("return document.activeElement.name + document.activeElement.value")
    problems = lines((kept == "keyfir", kept))
    browser.keys("\ue007")
    browser.until("location.hash.includes('key=fir')")
    browser.until("!document.body.innerText.includes('second')")
    has(browser, "first")
    asked = "performance.getEntriesByType('resource').filter((is) => is.name.includes(arguments[0])).length"
    kinds, lists = (browser.js("return " + asked, path) for path in ["api/kinds", "api/list"])
    browser.until(asked + " >= arguments[1]", "api/kinds", kinds + 6)
    again = browser.js("return " + asked, "api/list") - lists
    return problems + lines((again < 4, f"each redraw has looked for the key: {again} times"))


def hostile_names_are_text(store):
    one = store.put(EVIL_KIND, EVIL, "--key", EVIL, "--group", EVIL, "--at", "now")
    store.tool("pause", EVIL_KIND, "--group", EVIL)
    store.put("json", '{"<b>x</b>": "\\u202e\\u0007"}', "--key", "json", "--at", "1h")
    server, browser = look(store, "--changes")
    browser.js("window.alert = () => { document.title = 'run' }")
    problems = []
    other = [row["id"] for row in store.tool("list", "json")][0]
    for where, word in [("#/", "onerror"), (f"#/one/{one}", "onerror"), ("#/kind/" + "".join(f"%{byte:02x}" for byte in EVIL_KIND.encode()), "onerror"),
                        (f"#/one/{other}", "<b>x</b>"), ("#/kind/%00", "takes one kind"), ("#/one/<img src=x>", "id is the number of a timeout")]:
        browser.js("location.hash = arguments[0]", where)
        has(browser, word)
        titles = browser.js("return [...document.querySelectorAll('[title]')].map((is) => is.title).join('') + document.title")
        odd = [c for c in browser.text() + titles if c in ODD and c != "\n"]
        problems += lines((not odd, f"{where}: {odd}"),
                          (browser.js("return document.querySelectorAll('img, b.x, script').length") == 1, f"{where}: an element"))
    browser.js("openDialog('pause', {kind: arguments[0]})", EVIL[1:])
    click(browser, "dialog button[type=submit]")
    refused = browser.until("document.getElementById('refused').textContent")
    problems += lines((not [c for c in refused if c in ODD], f"a refusal: {refused!r}"))
    browser.js("document.getElementById('dialog').close()")
    browser.js("past.kinds = {}; pastAt = Infinity")  # no kind has a past yet
    for name in INHERITED:
        store.put(name, "--at", "1h")
    browser.js("location.hash = '#/constructor'")
    has(browser, *INHERITED)
    return problems + lines((browser.js("return document.title") != "run", "a script ran"), (not browser.console(), f"{browser.console()}"))


ALIKE = ["mail ", " mail", "ma  il", "ma\u00a0il", "\u3164", "mail\ufe0f", "mail\u2800", "mail\U000e0041", "m" + "\u0300" * 30]


def names_that_look_alike(store):
    """Spaces that HTML leaves out, and characters that draw nothing, are seen; signs on a letter stay in their line."""
    for name in ALIKE:
        store.put(name, "--at", "now")
    _, browser = look(store)
    has(browser, *(f"U+{code}" for code in ["0020", "00A0", "3164", "FE0F", "2800", "E0041"]))
    names = browser.js("return [...document.querySelectorAll('tbody th')].map((is) => is.innerText)")
    hidden = browser.js("return [...document.querySelectorAll('.verdict li, td.name, th.name')].every((is) => getComputedStyle(is).overflow === 'hidden')")
    return lines((len(set(names)) == len(ALIKE) + 1, f"{names}"), (hidden, "signs on a letter leave their line"))


def a_link_chooses_no_rows_that_a_form_cannot(store):
    """Else the buttons would change others than those that are shown."""
    store.put("mail", "--key", "grouped", "--group", "g", "--at", "1h")
    _, browser = look(store, "--changes")
    visit(browser, "#/kind/mail?no-group=true&count=true&limit=1&after=1.1")
    has(browser, "grouped", "first")
    return []


def data_that_is_large_or_deep(store):
    texts = [("[" * 5000 + "]" * 5000, "[" * 5000), ("[" * 99 + "0," * 50000 + "0" + "]" * 99, "[" * 99),
             ('["]",' * 3000 + "0" + "]" * 3000, '["]",' * 99), ("\x01" * 100000, "U+0001")]
    ones = [(store.put("json", text, "--at", "1h"), wanted) for text, wanted in texts]
    store.put("json", "--key", "\x01" * 200, "--at", "1h")
    _, browser = look(store)
    problems = []
    for one, wanted in ones:
        visit(browser, f"#/one/{one}")
        browser.until("location.hash.endsWith(arguments[0]) && document.querySelector('h1').innerText.includes(arguments[0]) && document.querySelector('pre')", str(one))
        drawn, spans = browser.js("const pre = document.querySelector('pre'); return [pre.textContent.length, pre.querySelectorAll('span').length]")
        problems += lines((drawn < 1 << 18 and spans <= 1000, f"{wanted[:8]}: {drawn} characters, {spans} elements"),
                          (browser.js("return document.querySelector('pre').textContent.includes(arguments[0])", wanted), wanted[:8]))
    visit(browser, "#/kind/json")
    browser.until("document.querySelector('td .odd') !== null")
    nodes = browser.js("return document.querySelector('td .odd').parentNode.childNodes.length")
    return problems + lines((nodes <= 41, f"a key of {nodes} nodes"))


def a_hundred_thousand_rows(store):
    store.put("many", "data", "--key", "k", "--at", "2h")
    columns = "due_us, base_us, epoch, period_us, bucket, kind, shard, attempt, state, priority, grp, schedule, zone, data"
    series = "with recursive n (n) as (select 1 union all select n + 1 from n where n < 100000)"
    sql(store, f"{series} insert into @_timeout (id, key, {columns}) select t.id + n.n, 'row ' || n.n, t.due_us + n.n * 1000, "
        f"{columns.partition(', ')[2]} from @_timeout t, n where t.key = 'k'" if store.url.startswith("sqlite:") else
        f"insert into @_timeout (id, key, {columns}) select t.id + n, convert_to('row ' || n, 'UTF8'), t.due_us + n * 1000, {columns.partition(', ')[2]} "
        "from @_timeout t, generate_series(1, 100000) n where t.key = 'k'")
    _, browser = look(store)
    visit(browser, "#/kind/many")
    browser.until("document.querySelectorAll('tbody tr').length === 100")
    click(browser, "button", "More")
    browser.until("document.querySelectorAll('tbody tr').length === 200")
    has(browser, "row 199")
    visit(browser, "#/kind/many?key=row 99999")
    has(browser, "None among those looked at so far.")
    for _ in range(4):
        click(browser, "button[data-more]")
    has(browser, "row 99999")
    return lines((not browser.console(), f"{browser.console()}"))


TOKEN = "the token of a test"


def log_in(browser, token=TOKEN):
    has(browser, "The token")
    browser.js("document.querySelector('input').value = arguments[0]", token)
    click(browser, "button", "Look")


def at_the_login(store):
    """A server with the token of a file, and a browser that has to log in; the options of the server."""
    file = store.folder / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    words = ["--token-file", str(file)]
    server = store.serve(*words)
    browser = store.browser = Browser(store.folder)
    browser.go(server.line)
    return server, browser, words


def the_server_is_gone_and_comes_back(store):
    server, browser, words = at_the_login(store)
    log_in(browser, "wrong")
    has(browser, "this is not the token")
    log_in(browser)
    has(browser, "mail")
    server.process.kill()
    server.process.wait()
    has(browser, "The server does not answer", "mail")
    store.put("after", "--at", "1h")
    store.serve(*words, "--listen", server.host)
    has(browser, "The session is over.", "The token")
    problems = lines(("after" not in browser.text(), "the page has logged in by itself"),
                     (browser.js("return document.getElementById('lost').hidden"), "it says that no server answers"))
    log_in(browser)
    has(browser, "after")
    return problems


def another_server_gets_no_token(store):
    """Whoever has the port next answers 401 to all, and hears what the page sends then."""
    server, browser, _ = at_the_login(store)
    log_in(browser)
    has(browser, "mail")
    server.end()
    heard = []

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            heard.append(self.command + " " + self.path)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(401)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
        do_POST = do_GET

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", server.port), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        has(browser, "The session is over.")
        other.shutdown()
    return lines((not [line for line in heard if line.startswith("POST")], f"{heard}"))


def the_session_is_over(store):
    server, browser = look(store)
    server.end()
    store.serve("--listen", server.host)
    has(browser, "The session is over.")
    return []


def each_change_asks_first(store):
    for i in range(4):
        store.put("mail", "--key", f"k{i}", "--group", "g", "--at", "1h")
    fail(store, "k0", "no")
    fail(store, "k1", "no")
    _, browser = look(store, "--changes")
    problems = []

    def change(button, wanted, fields=(), confirm=None):
        click(browser, "main button", button)
        browser.until("document.querySelector('dialog').open")
        for name, value in fields:
            browser.js("document.querySelector(`dialog [name=${arguments[0]}]`).value = arguments[1]", name, value)
        browser.js("document.getElementById('done').textContent = ''")
        click(browser, "dialog button[type=submit]")
        browser.until("document.getElementById('done').textContent === arguments[0] || document.getElementById('refused').textContent", wanted)
        refused = browser.js("return document.querySelector('dialog').open && document.getElementById('refused').textContent")
        problems.extend(lines((not refused, f"{button}: {refused}")))
        browser.until("!document.querySelector('dialog').open")

    def kind():
        return store.tool("stats", "mail")[0]

    for key in ["k", "k1"]:  # none changes rows together that the filter does not show
        visit(browser, "#/kind/mail?key=" + key)
        browser.until("document.querySelector('input[name=key]')?.value === arguments[0]", key)
        names = browser.js("return [...document.querySelectorAll('main [data-act]')].map((is) => is.innerText)")
        problems += lines((names == ["Pause", "Limit"], f"{key}: {names}"))
    visit(browser, "#/kind/mail")
    click(browser, "main button", "Pause")
    click(browser, "dialog button", "Back")
    problems += lines((not kind()["paused"], "Back pauses"))
    change("Pause", "paused 1")
    problems += lines((kind()["paused"], "not paused"))
    change("Resume", "resumed 1")
    change("Limit", "limited 1", [("running", "3"), ("every", "2s")])
    problems += lines((kind()["each_group"] == {"running": 3, "start_every_ns": 2000000000, "burst": 0}, f"{kind()}"))
    change("Limit", "unset 1")
    change("Retry what has failed", "retried 2")
    change("Move all", "moved 5", [("at", "3h")])
    visit(browser, "#/kind/mail?group=g")
    change("Pause this group", "paused 1")
    problems += lines((kind()["paused_groups"] == 1, "the group"))
    has(browser, "Groups with rules of their own")
    change("Resume", "resumed 1")
    click(browser, "tbody a[href^='#/one/']")
    has(browser, "Data, ")
    change("Move", "moved 1", [("at", "tomorrow 9:00")])
    change("Cancel", "cancelled 1")
    has(browser, "there is no timeout")
    visit(browser, "#/kind/mail")
    click(browser, "main button", "Limit")
    browser.js("document.querySelector('dialog [name=running]').value = 'x'")
    click(browser, "dialog button[type=submit]")
    browser.until("document.getElementById('refused').textContent.includes('is no number')")
    browser.keys("\ue00c")
    browser.until("!document.querySelector('dialog').open")
    change("Cancel all", "cancelled 4")
    return problems + lines((store.tool("list", "mail") == [], "left"), (not browser.console(), f"{browser.console()}"))


def without_a_mouse(store):
    _, browser = look(store, "--changes")
    for _ in range(30):
        if browser.js("return document.activeElement.innerText") == "mail":
            break
        browser.keys("\ue004")
    browser.keys("\ue007")
    browser.until("location.hash === '#/kind/mail' && document.querySelector('h1') !== null")
    for _ in range(30):
        if browser.js("return document.activeElement.innerText") == "Pause":
            break
        browser.keys("\ue004")
    browser.keys("\ue007")
    browser.until("document.querySelector('dialog').open")
    browser.keys("\ue00c")
    browser.until("!document.querySelector('dialog').open")
    return lines((browser.js("return document.activeElement.innerText") == "Pause", "the focus is lost"))


def on_a_phone_and_in_the_dark(store):
    long = "x" * 60
    one = store.put(long, "y" * 3000, "--key", "k" * 255, "--group", "g" * 255, "--at", "now")
    fail(store, "k" * 255, "e" * 250)
    store.tool("pause", long, "--group", "g" * 255)
    _, browser = look(store, "--changes")
    problems = []
    for width in [360, 1280]:
        browser.size(width, 800)
        for where in ["#/", "#/kind/" + long, f"#/one/{one}"]:
            browser.js("location.hash = arguments[0]", where)
            browser.until("document.querySelector('.verdict, dl') !== null")
            problems += fits(browser, f"{where} at {width}")
    colour = "return getComputedStyle(document.body).backgroundColor"
    visit(browser, f"#/kind/{long}?state=failed")
    has(browser, "1 failed. Read the errors; once their cause is mended, retry them.", "Move failed", "Cancel failed")
    light = browser.js(colour)
    browser.colours("dark")
    return problems + lines((browser.js(colour) != light, "the same in the dark"))


def a_picture(store):
    """Of a store in which something stands still.  Ten minutes take too long for a test, so the past is made up."""
    for i in range(12):
        store.put("mail", '{"to": "alice@example.org", "invoice": %d}' % i, "--key", f"invoice-{i}", "--group", "tenant 3", "--at", "now")
    store.put("nightly", "--key", "report", "--at", "now")
    store.put("webhook", "--key", "hook", "--at", "now")
    store.put("thumbnail", "--at", "1h")
    sql(store, "update @_timeout set due_us = due_us - 400000000 where key like 'invoice%'")
    sql(store, "update @_timeout set due_us = due_us - 11000000000 where key = 'report'")
    fail(store, "hook", "410 Gone")
    store.tool("pause", "mail", "--group", "tenant 3")
    tell(store, "1,3,4", 400, "1:pause=12{at}", "1=240 3=31 4=1320")
    _, browser = look(store, "--changes")
    browser.size(1100, 540)
    browser.js("""const points = (of) => [...Array(120).keys()].map((i) => Math.max(0, Math.round(of(i)))), none = points(() => 0);
        past = {kinds: {mail: {overdue_us: points((i) => (i - 40) * 5e6), started_minute: points((i) => i < 40 ? 420 + 30 * Math.sin(i) : 240)},
            nightly: {overdue_us: points((i) => 11e9 + i * 5e6), started_minute: none},
            webhook: {overdue_us: none, started_minute: points((i) => 30 + 9 * Math.sin(i / 9))},
            thumbnail: {overdue_us: none, started_minute: points((i) => 1300 + 200 * Math.sin(i / 5))}}};
        pastAt = Infinity; draw()""")
    browser.until("document.querySelectorAll('svg.starts').length === 3")
    path = os.environ.get("HWT_SHOT") if store.url.startswith("sqlite:") else None
    browser.shot(path or store.folder / "page.png")
    return fits(browser, "the picture")


def closed(test):
    def run(store):
        store.browser = None
        try:
            return test(store)
        finally:
            if store.browser:
                store.browser.close()
    run.__name__ = test.__name__
    return run


TESTS = [what_stands_still_comes_first, an_empty_store, what_processes_tell, it_redraws_and_keeps_what_was_typed,
         hostile_names_are_text, names_that_look_alike, a_link_chooses_no_rows_that_a_form_cannot, data_that_is_large_or_deep,
         a_hundred_thousand_rows, the_server_is_gone_and_comes_back, another_server_gets_no_token, the_session_is_over,
         each_change_asks_first, without_a_mouse, on_a_phone_and_in_the_dark, a_picture]

if __name__ == "__main__":
    sys.exit(main([closed(test) for test in TESTS]))
