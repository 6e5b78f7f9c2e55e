"""The web console of `atoll serve` in a real browser: headless Chromium, driven by Playwright.

With `ATOLL_CONSOLE_PICTURES=DIR`, pictures of all pages are kept there.
"""

import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import psycopg
import pytest

from server_process import Serving, atoll, certificate

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium")
# What a browser does behind the back of its user has no place in a test.
QUIET = "disable-background-networking disable-component-update disable-sync no-first-run"
PAGES = ["overview", "activity", "statements", "tables", "query"]
PICTURES = os.environ.get("ATOLL_CONSOLE_PICTURES")
sync_api.expect.set_options(timeout=20_000)
LONG = """SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 100000) b(y)
WHERE x % 7 > y % 11"""

if not CHROMIUM:
    pytest.skip("chromium is not installed: scripts/setup.sh browser", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as play:
        options = [f"--{one}" for one in QUIET.split()]
        # Chromium's sandbox does not work for root.
        options += ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = play.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        launched.close()


def console_of(server):
    """The address of the console, which the server tells before it says where it listens."""
    told = Path(server.folder / "stderr").read_text()
    return re.search(r"console at (\S+)", told)[1]


def with_tables(server):
    with psycopg.connect(server.dsn, autocommit=True) as owner:
        owner.execute("CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'geheim'")
        owner.execute("CREATE TABLE account (id int PRIMARY KEY, name text, balance numeric(12,2))")
        owner.execute("CREATE INDEX account_name ON account (name)")
        owner.execute("CREATE TABLE visit (day date PRIMARY KEY, people int, pages int)")
        for day in range(1, 29):
            values = (f"2026-11-{day:02}", 40 + day * 3 + day % 7 * 9, 120 + day * 5 + day % 5 * 30)
            owner.execute("INSERT INTO visit VALUES (%s, %s, %s)", values)


@pytest.fixture
def server(tmp_path):
    with Serving(tmp_path, "--console", "127.0.0.1:0") as serving:
        with_tables(serving)
        yield serving


class Seen:
    """A page, and what went wrong in it."""

    def __init__(self, browser, server, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self.said)
        self.url = console_of(server)

    def said(self, message):
        # A login that is refused, or that there is none, is no fault.
        if message.type == "error" and "status of 401" not in message.text:
            self.faults.append(message.text)

    def login(self, password="geheim"):
        self.page.goto(self.url)
        self.page.get_by_label("Role").fill("ann")
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()

    def turn_to(self, name):
        self.page.get_by_role("link", name=name, exact=True).click()

    def run(self, sql):
        self.page.get_by_label("SQL").fill(sql)
        self.page.get_by_label("SQL").press("Control+Enter")
        sync_api.expect(self.page.locator("#query-said")).to_contain_text(re.compile("Took|Failed"))

    def picture(self, name):
        if PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=f"{PICTURES}/{name}.png", full_page=True)


@contextlib.contextmanager
def seen(browser, server, **options):
    one = Seen(browser, server, **options)
    try:
        yield one
    finally:
        one.context.close()
    assert one.faults == []


@contextlib.contextmanager
def load(server):
    """Some hundred transactions each second, of two clients."""
    ended = threading.Event()

    def work(number):
        with psycopg.connect(server.dsn, autocommit=True) as client:
            client.execute("SET application_name = 'shop'")
            for at in range(100_000):
                if ended.is_set():
                    return
                key = number * 1_000_000 + at
                client.execute("INSERT INTO account VALUES (%s, %s, 10.00)", (key, f"n{key}"))
                client.execute("SELECT balance FROM account WHERE id = %s", (key,))
                time.sleep(0.003)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_role_logs_in_and_sees_numbers_move(browser, server):
    with seen(browser, server) as one, load(server):
        one.login("wrong")
        sync_api.expect(one.page.locator("#login-error")).to_have_text(
            "The role or the password is wrong."
        )
        assert one.page.locator("#console").is_hidden()
        one.page.get_by_label("Password").fill("geheim")
        one.page.get_by_label("Password").press("Enter")
        moving = "() => parseFloat(document.getElementById('figure-tps').textContent) > 5"
        one.page.wait_for_function(moving)
        one.page.wait_for_function("() => /s$/.test(document.getElementById('figure-p95').textContent)")
        line = one.page.locator("#chart-throughput path.line").first
        one.page.wait_for_function("() => document.querySelector('#chart-throughput path.line').getAttribute('d').split('L').length > 3")
        before = line.get_attribute("d")
        one.page.wait_for_function("before => document.querySelector('#chart-throughput path.line').getAttribute('d') !== before", arg=before)
        for chart in ("time", "memory"):
            sync_api.expect(one.page.locator(f"#chart-{chart} path.area").first).to_be_attached()
        cookie = one.context.cookies()[0]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and not cookie["secure"]
        one.page.get_by_role("button", name="Log out").click()
        sync_api.expect(one.page.get_by_label("Password")).to_be_visible()
        one.page.reload()
        sync_api.expect(one.page.get_by_label("Password")).to_be_visible()


def test_a_query_is_shown_as_a_table_and_a_chart(browser, server):
    with seen(browser, server) as one:
        one.login()
        one.turn_to("Query")
        one.run("SELECT day, people, pages FROM visit ORDER BY day")
        rows = one.page.locator("#results tbody tr")
        sync_api.expect(rows).to_have_count(28)
        sync_api.expect(rows.first).to_contain_text("2026-11-01")
        one.picture("query-table")
        one.page.get_by_role("button", name="Line").click()
        sync_api.expect(one.page.locator("#results path.line")).to_have_count(2)
        one.picture("query-line")
        one.page.get_by_role("button", name="Bars").click()
        sync_api.expect(one.page.locator("#results rect.bar")).to_have_count(56)
        with one.page.expect_download() as download:
            one.page.get_by_role("button", name="CSV").click()
        text = Path(download.value.path()).read_bytes().decode()
        assert text.startswith("day,people,pages\r\n2026-11-01,52,155\r\n"), text
        one.page.get_by_text("History").click()
        sync_api.expect(one.page.locator("#history li")).to_have_count(1)
        # What is in the database is no part of the page.
        one.run("""SELECT '<img src=x onerror="document.title=1">' AS "<b>name</b>", NULL AS nothing""")
        sync_api.expect(one.page.locator("#results td").first).to_contain_text("<img src=x")
        sync_api.expect(one.page.locator("#results th").first).to_contain_text("<b>name</b>")
        sync_api.expect(one.page.locator("#results td.none")).to_have_text("NULL")
        assert one.page.locator("#results img, #results b").count() == 0
        one.run("SELECT * FROM generate_series(1, 2000)")
        sync_api.expect(one.page.locator("#results .notice")).to_contain_text("1,000 rows")


def test_a_query_changes_something_only_if_it_may(browser, server):
    with seen(browser, server) as one:
        one.login()
        one.turn_to("Query")
        one.run("SELECT 1;\nDELETE FROM visit")
        problem = one.page.locator(".problem")
        sync_api.expect(problem).to_contain_text("25006")
        sync_api.expect(problem).to_contain_text("READ ONLY")
        one.picture("query-refused")
        one.page.get_by_label("Allow changes").check()
        one.run("DELETE FROM visit WHERE people < 60")
        sync_api.expect(one.page.locator("#results h2")).to_contain_text("DELETE")
        assert problem.count() == 0
        assert not one.page.get_by_label("Allow changes").is_checked()
        one.run("SELECT day,\n       peple FROM visit")
        sync_api.expect(problem).to_contain_text("42703")
        sync_api.expect(problem.locator("pre")).to_contain_text("Line 2\n       peple FROM visit\n       ^")
        one.picture("query-error")


def test_a_query_is_cancelled(browser, server):
    with seen(browser, server) as one:
        one.login()
        one.turn_to("Query")
        one.page.get_by_label("SQL").fill(LONG)
        one.page.get_by_role("button", name="Run").click()
        sync_api.expect(one.page.locator("#query-said")).to_contain_text("Running for")
        one.page.get_by_role("button", name="Cancel", exact=True).click()
        sync_api.expect(one.page.locator(".problem")).to_contain_text("57014")


def test_clients_are_cancelled_and_terminated(browser, server):
    with seen(browser, server) as one, psycopg.connect(server.dsn, autocommit=True) as other:
        one.login()
        one.turn_to("Activity")
        failed = []

        def work():
            with pytest.raises(psycopg.errors.QueryCanceled) as error:
                other.execute(LONG)
            failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        pid = other.info.backend_pid
        one.page.get_by_role("button", name=f"Cancel the statement of client {pid}").click()
        thread.join(timeout=30)
        assert failed
        row = one.page.locator("#activity tbody tr", has_text=str(pid)).first
        sync_api.expect(row).to_contain_text("idle")
        row.get_by_role("button", name="Terminate").click()
        row.get_by_role("button", name="Sure?").click()
        sync_api.expect(one.page.locator("#activity-said")).to_contain_text("The connection ends")
        with pytest.raises(psycopg.OperationalError):
            for _ in range(100):
                other.execute("SELECT 1")
                time.sleep(0.05)


def test_tables_and_snapshots_are_shown(browser, server):
    attach = [atoll(), "--runtime-dir", str(server.runtime), "attach", server.name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with seen(browser, server) as one:
        one.login()
        sync_api.expect(one.page.locator("#snapshots")).to_contain_text("No snapshot is held.")
        with subprocess.Popen(attach, **pipes) as holder:
            holder.stdin.write("SELECT 1;\n")
            holder.stdin.flush()
            sync_api.expect(one.page.locator("#snapshots")).to_contain_text(str(holder.pid))
            sync_api.expect(one.page.locator("#snapshots")).to_contain_text("atoll")
            one.picture("snapshots")
            holder.communicate()
        sync_api.expect(one.page.locator("#snapshots")).to_contain_text("No snapshot is held.")
        one.turn_to("Tables")
        one.page.get_by_role("button", name="account").click()
        card = one.page.locator("#table-card")
        for text in ("numeric(12,2)", "account_name", "primary key"):
            sync_api.expect(card).to_contain_text(text)


def test_pages_fit_phones_in_light_and_dark(browser, server):
    with load(server):
        for scheme in ("light", "dark"):
            for width, scale in ((1280, 1), (390, 2)):
                options = {
                    "viewport": {"width": width, "height": 844},
                    "color_scheme": scheme,
                    "device_scale_factor": scale,
                }
                with seen(browser, server, **options) as one:
                    one.page.goto(one.url)
                    sync_api.expect(one.page.get_by_label("Role")).to_be_visible()
                    one.picture(f"login-{scheme}-{width}")
                    one.login()
                    sync_api.expect(one.page.locator("#statements tbody tr").first).to_be_attached()
                    if PICTURES:
                        time.sleep(20)
                    back = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
                    assert (back == "rgb(13, 19, 23)") == (scheme == "dark"), back
                    for name in PAGES:
                        one.turn_to(name.capitalize())
                        if name == "tables":
                            one.page.get_by_role("button", name="account").click()
                            sync_api.expect(one.page.locator("#table-card")).to_contain_text("name")
                        if name == "query":
                            one.run("SELECT day, people, pages FROM visit ORDER BY day")
                            one.page.get_by_role("button", name="Bars").click()
                        one.picture(f"{name}-{scheme}-{width}")
                        wide = "document.documentElement.scrollWidth"
                        assert one.page.evaluate(wide) <= width, (name, width)


def test_it_is_encrypted_with_the_certificate_of_the_server(browser, tmp_path):
    cert, key = certificate(tmp_path)
    options = ["--tls-cert", str(cert), "--tls-key", str(key), "--console", "127.0.0.1:0"]
    with Serving(tmp_path, *options) as server:
        with_tables(server)
        assert console_of(server).startswith("https://")
        with seen(browser, server, ignore_https_errors=True) as one:
            one.login()
            sync_api.expect(one.page.locator("#who")).to_have_text("ann")
            cookie = one.context.cookies()[0]
            assert cookie["secure"] and cookie["name"].startswith("__Host-")


def test_a_console_for_others_needs_a_certificate(tmp_path):
    with pytest.raises(RuntimeError, match="there is no certificate(.|\n)*--tls-cert"):
        Serving(tmp_path, "--console", "0.0.0.0:0", data=False)
