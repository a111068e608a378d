"""The page behind a real nginx with the lines of docs/deploy.md, by a path and by a name, with https."""

import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_steps import WAIT_MS, press_save
from playwright.sync_api import Browser, Page, expect

import balcony.app

NGINX, OPENSSL = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"), shutil.which("openssl")
DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
NAME = "school.localhost"  # which Chromium looks for on this machine
TOKEN = "a-teacher"

pytestmark = pytest.mark.skipif(not (NGINX and OPENSSL), reason="there is no nginx here (apt-get install nginx)")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module", params=["/course/bert", ""], ids=["by a path", "by a name"])
def proxied(request: Any, service: Any, shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which nginx serves the page."""
    path, folder, port = request.param, tmp_path_factory.mktemp("nginx"), free_port()
    address = f"https://{NAME}:{port}{path}"
    app, url, _ = balcony.launch(
        service,
        shipped=[shipped],
        server_name="127.0.0.1",
        prevent_thread_lock=True,
        quiet=True,
        teacher=TOKEN,
        allowed=[NAME],
        root_path=path or None,
    )
    certificate = f"{OPENSSL} req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN={NAME}"
    subprocess.run(shlex.split(certificate), cwd=folder, check=True, capture_output=True)
    [server] = re.findall(r"```nginx\n(.*?)```", DEPLOY.read_text(encoding="utf-8"), re.DOTALL)
    own = {
        "listen 443": f"listen 127.0.0.1:{port}",
        "school.example": NAME,
        "/etc/ssl/school.pem": f"{folder}/cert.pem",
        "/etc/ssl/school.key": f"{folder}/key.pem",
        "http://127.0.0.1:7860/": url,
        "location /course/bert/": f"location {path}/",
    }
    for before, after in own.items():
        assert before in server, before
        server = server.replace(before, after)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    user = "user root;\n" if folder.owner() == "root" else ""
    (folder / "nginx.conf").write_text(
        f"{user}pid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{folders}{server}}}\n"
    )
    command = [NGINX, "-c", folder / "nginx.conf", "-p", folder, "-e", folder / "error.log", "-g", "daemon off;"]
    nginx = subprocess.Popen(command)
    try:
        yield address
    finally:
        nginx.terminate()
        nginx.wait(20)
        app.get_blocks().close(verbose=False)


@pytest.fixture
def page(browser: Browser, proxied: str) -> Iterator[Page]:
    context = browser.new_context(
        ignore_https_errors=True, accept_downloads=True, viewport={"width": 1600, "height": 900}
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    yield page
    context.close()


def test_the_page_works_behind_nginx(page: Page, proxied: str, tmp_path: Path) -> None:
    expect.set_options(timeout=WAIT_MS)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("response", lambda each: complaints.append(f"{each.status} {each.url}") if each.status >= 400 else None)
    asked: list[str] = []
    page.on("request", lambda each: asked.append(each.url))
    page.goto(proxied if proxied.endswith("bert") else f"{proxied}/")  # nginx adds the slash
    expect(page.locator("#start")).to_be_enabled()
    (tmp_path / "mine.txt").write_text("one two three\nfour five six\nseven one two\nthree four\n" * 3)
    page.locator("#source input").nth(2).check()
    page.locator("#uploaded input[type=file]").set_input_files(tmp_path / "mine.txt")
    expect(page.locator("#preview")).to_contain_text("seven")
    page.locator("#start").click()
    expect(page.locator("#run-status")).to_have_text("Finished")
    page.get_by_role("tab", name="Masked words").click()
    expect(page.locator("#masked-guesses")).to_be_visible()
    with page.expect_download() as waiting:
        press_save(page, "#masked-download-csv")
    assert Path(waiting.value.path()).stat().st_size > 100
    page.get_by_role("tab", name="Models").click()
    with page.expect_download() as waiting:
        page.locator("#download").click()
    assert waiting.value.url.startswith(proxied)
    assert Path(waiting.value.path()).read_bytes().startswith(b"PK")
    page.wait_for_url(re.compile("tab=models"))
    link = page.url
    assert link.startswith(f"{proxied}/#")
    page.get_by_role("tab", name="Class").click()
    page.get_by_label("Your name on the board").fill("Ada")
    page.get_by_role("button", name="Share my run").click()
    expect(page.get_by_role("row").filter(has_text="Ada")).to_be_visible()
    page.screenshot(path=tmp_path / "proxied.png")
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#download")).to_be_visible()
    assert complaints == []
    assert [each for each in asked if not each.startswith((proxied, "blob:", "data:", "about:"))] == []


def test_another_name_is_refused(proxied: str) -> None:
    own = f"{proxied}/health".replace(NAME, "127.0.0.1")
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(urllib.request.Request(own, headers={"Host": NAME}), context=trusting) as answer:
        assert json.load(answer)["status"]
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(urllib.request.Request(own, headers={"Host": "attacker.example"}), context=trusting)
